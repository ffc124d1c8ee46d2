//! Every environment variable of the plugin, in one table ([`VARIABLES`]); `docs/REFERENCE.md` lists
//! them (`tests/environment_page.rs` compares, and renews the page with `UPDATE_DOCS=1`), and `nccl-otf2 run --help` names them.
//!
//! Reading is total: a bad value keeps the default and leaves a [`Config::remarks`] line, and so does a
//! variable that looks like ours and is not, with the nearest name that exists.

use std::time::Duration;

use crate::config::gpu::{CuptiKernels, GpuSettings, Wish};
use crate::config::windows::Windows;
use journal::format::layout::SEGMENT_BYTES;
use journal::part::options::{ArchiveOptions, CollectiveRecords, CommLanes, Level};
use journal::writer::Window;

mod events;
pub mod gpu;
mod place;
mod values;
mod variables;
pub mod windows;

pub use events::{FULL, LIGHT, STANDARD, event_kinds, event_mask, event_names};
pub use place::{Place, expand};
use values::{choice, distance, number, signal, size};
pub use variables::{VARIABLES, Variable};

/// Whether Score-P is shown what happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorepMode {
    /// Where it is in the process.
    Auto,
    /// Likewise, and it is a fault where it is not.
    On,
    /// Never.
    Off,
}

/// When the archive is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalize {
    /// At the end of the process's recording.
    Inline,
    /// By `nccl-otf2 finalize`.
    Offline,
}

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Warnings only.
    Quiet,
    /// One line at start, one at the end, warnings.
    Normal,
    /// The lines on stderr too, and decisions.
    Verbose,
}

/// The settings of one process.
#[derive(Clone, Debug)]
pub struct Config {
    /// Template of the output directory; see [`expand`].
    pub directory: Option<String>,
    /// Template of the journal directory.
    pub journal_directory: Option<String>,
    /// NCCL's activation mask.
    pub mask: u32,
    /// Whether anything is recorded.
    pub enabled: bool,
    /// Whether only the end of what is recorded is kept.
    pub is_flight: bool,
    /// Most bytes that a flight recording keeps.
    pub flight_bytes: Option<u64>,
    /// How long a flight recording keeps records.
    pub flight_time: Option<Duration>,
    /// The signal that asks for a snapshot.
    pub dump_signal: Option<i32>,
    /// The signal that switches recording off and on.
    pub toggle_signal: Option<i32>,
    /// From which collective to which one is recorded.
    pub windows: Windows,
    /// Most bytes of journal.
    pub max_bytes: u64,
    /// When the archive is written.
    pub finalize: Finalize,
    /// How long writing inline may take.
    pub finalize_timeout: Duration,
    /// Whether a written journal stays.
    pub keep_journal: bool,
    /// What of the recorded goes into the archive, and how.
    pub archive: ArchiveOptions,
    /// What is to be known of GPUs.
    pub gpu: GpuSettings,
    /// Whether Score-P is shown what happens, where it is there.
    pub scorep: ScorepMode,
    /// How much is said.
    pub verbosity: Verbosity,
    /// What was wrong with the variables: one line each.
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
            windows: Windows::default(),
            max_bytes: 8 << 30,
            finalize: Finalize::Inline,
            finalize_timeout: Duration::from_secs(60),
            keep_journal: false,
            archive: ArchiveOptions::default(),
            gpu: GpuSettings::default(),
            scorep: ScorepMode::Auto,
            verbosity: Verbosity::Normal,
            remarks: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the process's environment.
    #[must_use]
    pub fn from_environment() -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        });
        Self::from_variables(variables)
    }

    /// Reads variables given as pairs.
    #[must_use]
    pub fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Self {
        let mut config = Self::default();
        let mut fallback_mask = None;
        let mut events_given = false;
        let mut ours: Vec<(String, String)> = variables
            .filter(|(name, _)| is_ours(name) || name == "NCCL_PROFILE_EVENT_MASK")
            .collect();
        ours.sort();
        for (name, value) in ours {
            if name == "NCCL_PROFILE_EVENT_MASK" {
                fallback_mask = Some(value);
                continue;
            }
            events_given |= name == "NCCL_OTF2_EVENTS";
            if let Err(reason) = config.set(&name, value.trim()) {
                config.remarks.push(format!("{name}={value}: {reason}"));
            }
        }
        if config.toggle_signal.is_some() && config.toggle_signal == config.dump_signal {
            config.toggle_signal = None;
            config.remarks.push(
                "NCCL_OTF2_TOGGLE_SIGNAL: that is the signal of NCCL_OTF2_DUMP_SIGNAL; none is used"
                    .to_owned(),
            );
        }
        if let (Some(value), false) = (fallback_mask, events_given) {
            match number(&value).and_then(|mask| u32::try_from(mask).ok()) {
                Some(mask) => config.mask = mask & FULL,
                None => config.remarks.push(format!(
                    "NCCL_PROFILE_EVENT_MASK={value}: not a number; `standard` is used"
                )),
            }
        }
        config
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "NCCL_OTF2_DIR" => {
                self.directory = Some(value.to_owned()).filter(|value| !value.is_empty())
            }
            "NCCL_OTF2_JOURNAL_DIR" => {
                self.journal_directory = Some(value.to_owned()).filter(|value| !value.is_empty());
            }
            "NCCL_OTF2_EVENTS" => self.mask = event_mask(value)?,
            "NCCL_OTF2_MODE" => {
                let modes = [
                    ("trace", (true, false)),
                    ("flight", (true, true)),
                    ("off", (false, false)),
                ];
                (self.enabled, self.is_flight) = choice(value, &modes)?;
            }
            "NCCL_OTF2_FLIGHT_SIZE" => {
                let bytes =
                    size(value).map_err(|_| "not a size like 64M or 1G; 64M is used".to_owned())?;
                self.flight_bytes = Some(bytes.max(SMALLEST_FLIGHT_BYTES));
                if bytes < SMALLEST_FLIGHT_BYTES {
                    let smallest = SMALLEST_FLIGHT_BYTES >> 20;
                    return Err(format!(
                        "less than {smallest}M, of which next to nothing would be old records; {smallest}M is used"
                    ));
                }
            }
            "NCCL_OTF2_DUMP_SIGNAL" => self.dump_signal = signal(value)?,
            "NCCL_OTF2_TOGGLE_SIGNAL" => self.toggle_signal = signal(value)?,
            "NCCL_OTF2_WINDOW" => {
                let windows = Windows::parse(value);
                self.windows = windows.map_err(|reason| format!("{reason}; all is recorded"))?;
            }
            "NCCL_OTF2_FLIGHT_SECONDS" => {
                let seconds = value.parse().ok().filter(|&seconds: &u64| seconds > 0);
                let seconds = seconds.ok_or("not a number of seconds; only the size counts")?;
                self.flight_time = Some(Duration::from_secs(seconds));
            }
            "NCCL_OTF2_MAX_SIZE" => {
                let bytes = size(value)?;
                // Who asked for little does not want the default.
                self.max_bytes = bytes.max(SMALLEST_BYTES);
                if bytes < SMALLEST_BYTES {
                    return Err(too_small());
                }
            }
            "NCCL_OTF2_FINALIZE" => {
                self.finalize = choice(
                    value,
                    &[("inline", Finalize::Inline), ("offline", Finalize::Offline)],
                )?;
            }
            "NCCL_OTF2_FINALIZE_TIMEOUT" => {
                let seconds = value
                    .parse()
                    .map_err(|_| "not a number of seconds; 60 is used".to_owned())?;
                self.finalize_timeout = Duration::from_secs(seconds);
            }
            "NCCL_OTF2_KEEP_JOURNAL" => {
                self.keep_journal = choice(value, &[("0", false), ("1", true)])?
            }
            "NCCL_OTF2_LEVEL" => self.archive.level = choice(value, Level::CHOICES)?,
            "NCCL_OTF2_METRICS" => {
                let parsed = value.parse();
                self.archive.metrics =
                    parsed.map_err(|reason: String| format!("{reason}; none is used"))?;
            }
            "NCCL_OTF2_COMM_LANES" => {
                self.archive.comm_lanes = choice(value, CommLanes::CHOICES)?;
            }
            "NCCL_OTF2_COLLECTIVES" => {
                self.archive.collectives = choice(value, CollectiveRecords::CHOICES)?;
            }
            "NCCL_OTF2_GPU" => self.gpu.wish = choice(value, Wish::CHOICES)?,
            "NCCL_OTF2_CUPTI_KERNELS" => {
                self.gpu.kernels = choice(value, CuptiKernels::CHOICES)?;
            }
            "NCCL_OTF2_CUPTI_LIB" => {
                self.gpu.cupti_library = Some(value.to_owned()).filter(|path| !path.is_empty());
            }
            "NCCL_OTF2_SCOREP" => {
                let modes = [
                    ("auto", ScorepMode::Auto),
                    ("on", ScorepMode::On),
                    ("off", ScorepMode::Off),
                ];
                self.scorep = choice(value, &modes)?;
            }
            "NCCL_OTF2_VERBOSITY" => {
                self.verbosity = choice(
                    value,
                    &[
                        ("quiet", Verbosity::Quiet),
                        ("normal", Verbosity::Normal),
                        ("verbose", Verbosity::Verbose),
                    ],
                )?;
            }
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

impl Config {
    /// What is to be kept, where that is not everything.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        let by_default = match self.flight_time {
            Some(_) => self.max_bytes,
            None => DEFAULT_FLIGHT_BYTES,
        };
        self.is_flight.then(|| Window {
            bytes: self.flight_bytes.unwrap_or(by_default),
            time: self.flight_time,
        })
    }

    /// Most bytes of journal. A window has room above it: the maintenance may be late to remove what is old.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        let window = self.window().map_or(0, |window| window.bytes);
        self.max_bytes.max(window.saturating_mul(2))
    }
}

/// `NCCL_OTF2_TEST_*` is for the project's own tests, which run programs that load the plugin.
fn is_ours(name: &str) -> bool {
    name.starts_with("NCCL_OTF2_") && !name.starts_with("NCCL_OTF2_TEST_")
}

fn unknown(name: &str) -> String {
    let nearest = VARIABLES
        .iter()
        .map(|variable| variable.name)
        .min_by_key(|known| distance(name, known));
    match nearest {
        Some(nearest) => format!("no such variable; the nearest is {nearest}"),
        None => "no such variable".to_owned(),
    }
}

/// The smallest window worth having: a few threads with a segment in use and one to come.
const SMALLEST_FLIGHT_BYTES: u64 = 8 * SEGMENT_BYTES as u64;
/// What a flight recording keeps when nothing is said.
const DEFAULT_FLIGHT_BYTES: u64 = 64 << 20;

/// The smallest journal worth having: a segment for the plugin's own thread, which measures the clocks, one for a
/// thread that calls NCCL, one for a proxy thread.
const SMALLEST_BYTES: u64 = 3 * SEGMENT_BYTES as u64;

fn too_small() -> String {
    let smallest = SMALLEST_BYTES >> 20;
    format!(
        "less than {smallest}M, with which next to nothing is recorded; {smallest}M is used: give 1M for each thread that calls NCCL or is NCCL's, and 1M more, or record fewer events (NCCL_OTF2_EVENTS)"
    )
}

#[cfg(test)]
mod tests;
