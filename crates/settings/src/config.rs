//! The settings of one process, with their defaults.

use std::time::Duration;

use super::gpu::GpuSettings;
use super::steps::StepRanges;
use journal::part::options::ArchiveOptions;
use journal::writer::Retention;
use nccl_events::STANDARD;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorepMode {
    /// If Score-P is in the process; only calls if Scalasca is to analyse the trace.
    Auto,
    /// If Score-P is in the process; a warning if it is not.
    On,
    /// As `On`, but only calls.
    Calls,
    Off,
}

impl ScorepMode {
    pub(super) const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("calls", Self::Calls), ("off", Self::Off)];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalize {
    /// When the process's recording ends.
    Inline,
    Offline,
}

impl Finalize {
    pub(super) const CHOICES: &'static [(&'static str, Self)] = &[("inline", Self::Inline), ("offline", Self::Offline)];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    Quiet,
    /// One line at start, one at the end, and warnings.
    Normal,
    /// The same lines on stderr too, and decisions.
    Verbose,
}

impl Verbosity {
    pub(super) const CHOICES: &'static [(&'static str, Self)] =
        &[("quiet", Self::Quiet), ("normal", Self::Normal), ("verbose", Self::Verbose)];
}

/// Which ranges of NVTX's are recorded where the library is NVTX's injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NvtxChoice {
    Off,
    /// NCCL's own calls.
    Nccl,
    /// NCCL's and the program's, not those of CUDA's libraries.
    Auto,
    All,
}

impl NvtxChoice {
    pub(super) const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("nccl", Self::Nccl), ("all", Self::All), ("off", Self::Off)];
}

/// Whether `nccl-otf2 run` has NCCL dump its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyChoice {
    Off,
    /// Not where NVLink connects hosts: there NCCL hangs unless all processes dump.
    Auto,
    On,
}

impl TopologyChoice {
    pub(super) const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

#[derive(Clone, Debug)]
pub struct Config {
    /// Template of the output directory; see [`super::expand`].
    pub directory: Option<String>,
    pub journal_directory: Option<String>,
    pub mask: u32,
    pub enabled: bool,
    pub is_flight: bool,
    /// The disk space limit of a flight recording, if the user sets one.
    pub flight_bytes: Option<u64>,
    /// How long a flight recording keeps records, if the user sets a limit.
    pub flight_time: Option<Duration>,
    pub dump_signal: Option<i32>,
    pub toggle_signal: Option<i32>,
    pub steps: StepRanges,
    pub max_bytes: u64,
    pub finalize: Finalize,
    pub finalize_timeout: Duration,
    /// Whether the journal stays after the archive is written.
    pub keep_journal: bool,
    pub archive: ArchiveOptions,
    pub gpu: GpuSettings,
    pub scorep: ScorepMode,
    pub nvtx: NvtxChoice,
    pub topology: TopologyChoice,
    /// The profiler plugins chained behind this one: names or paths.
    pub chain: Vec<String>,
    pub verbosity: Verbosity,
    /// Problems with the variables, one line each.
    pub remarks: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            directory: None,
            journal_directory: None,
            mask: STANDARD,
            enabled: true,
            is_flight: false,
            flight_bytes: None,
            flight_time: None,
            dump_signal: Some(libc::SIGUSR2),
            toggle_signal: None,
            steps: StepRanges::default(),
            max_bytes: 8 << 30,
            finalize: Finalize::Inline,
            finalize_timeout: Duration::from_secs(60),
            keep_journal: false,
            archive: ArchiveOptions::default(),
            gpu: GpuSettings::default(),
            scorep: ScorepMode::Auto,
            nvtx: NvtxChoice::Auto,
            topology: TopologyChoice::Auto,
            chain: Vec::new(),
            verbosity: Verbosity::Normal,
            remarks: Vec::new(),
        }
    }
}

pub const MOST_CHAINED: usize = 4;

/// The disk space of a flight recording if the user sets no limit.
const DEFAULT_FLIGHT_BYTES: u64 = 64 << 20;

impl Config {
    /// What a flight recording keeps; `None` if everything is kept.
    pub fn flight_retention(&self) -> Option<Retention> {
        let by_default = match self.flight_time {
            Some(_) => self.max_bytes,
            None => DEFAULT_FLIGHT_BYTES,
        };
        self.is_flight.then(|| Retention { bytes: self.flight_bytes.unwrap_or(by_default), time: self.flight_time })
    }

    /// The size limit of the journal. Flight recordings get extra room, because old segments may be removed late.
    pub fn limit_bytes(&self) -> u64 {
        let retained = self.flight_retention().map_or(0, |kept| kept.bytes);
        self.max_bytes.max(retained.saturating_mul(2))
    }
}
