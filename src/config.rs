//! Every environment variable of the plugin, in one table ([`VARIABLES`]); `docs/ENVIRONMENT.md` lists
//! them (`tests/environment_page.rs` compares, and renews the page with `UPDATE_DOCS=1`), and `nccl-otf2 run --help` names them.
//!
//! Reading is total: a bad value keeps the default and leaves a [`Config::remarks`] line, and so does a
//! variable that looks like ours and is not, with the nearest name that exists.

use std::time::Duration;

use crate::control::windows::Windows;
use crate::event::Kind;
use crate::gpu::settings::{CuptiKernels, GpuSettings, Wish};
use crate::journal::layout::SEGMENT_BYTES;
use crate::journal::writer::Window;
use crate::write::options::{ArchiveOptions, CollectiveRecords, CommLanes, Level};

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What values it takes.
    pub values: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does, in Markdown.
    pub doc: &'static str,
}

/// All variables that start with `NCCL_OTF2_`.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "NCCL_OTF2_DIR",
        values: "path",
        default: "`nccl-otf2-<job id>`, without a job id `nccl-otf2-<date>-<time>`",
        doc: "Where the archive goes: one directory for all processes of a job. `%h` host, `%p` process id, `%j` job id, `%r` rank, `%%` a percent sign. Without a job id in the environment each process would choose its own time: set this variable for jobs of several processes (`nccl-otf2 run` does).",
    },
    Variable {
        name: "NCCL_OTF2_EVENTS",
        values: "preset, kinds or number, comma-separated",
        default: "`standard`",
        doc: "What to record. `light`: GroupApi, CollApi, P2pApi, KernelLaunch, Group, Coll, P2p, CeColl, CeSync, CeBatch. `standard`: light and ProxyOp. `full`: everything. Kinds by NCCL's names in any case, with `-` in front to leave one out (`standard,KernelCh,-ProxyOp`; `-KernelCh` leaves out KernelPhase as well, with which NCCL would add it again), or NCCL's mask as a number (`0x80e`). `NCCL_PROFILE_EVENT_MASK` (a number) is used when this is not set.",
    },
    Variable {
        name: "NCCL_OTF2_MODE",
        values: "`trace`, `flight` or `off`",
        default: "`trace`",
        doc: "`flight` keeps only the end of what is recorded ([FLIGHT.md](FLIGHT.md)). `off` loads the plugin and records nothing.",
    },
    Variable {
        name: "NCCL_OTF2_FLIGHT_SIZE",
        values: "bytes, with K, M, G or T",
        default: "`64M`; with `NCCL_OTF2_FLIGHT_SECONDS`, `NCCL_OTF2_MAX_SIZE`",
        doc: "With `NCCL_OTF2_MODE=flight`: most disk space of one process. The oldest records go first, but each recording thread keeps 1M to 2M of its own, whatever is given here. 8M at least.",
    },
    Variable {
        name: "NCCL_OTF2_FLIGHT_SECONDS",
        values: "seconds",
        default: "not limited",
        doc: "With `NCCL_OTF2_MODE=flight`: how long records are kept, at least; they go by the mebibyte.",
    },
    Variable {
        name: "NCCL_OTF2_DUMP_SIGNAL",
        values: "`USR1`, `USR2`, a real-time signal as a number, or `none`",
        default: "`USR2`",
        doc: "The signal that asks for a snapshot of the job ([FLIGHT.md](FLIGHT.md)), sent to any of its processes. A handler that the program had before is called, too; a default action, which would end the process, is not taken.",
    },
    Variable {
        name: "NCCL_OTF2_TOGGLE_SIGNAL",
        values: "`USR1`, `USR2`, a real-time signal as a number, or `none`",
        default: "`none`",
        doc: "The signal that switches the recording of the process that gets it off, and on again ([CONTROL.md](CONTROL.md)). Handlers that the program had before are treated as for `NCCL_OTF2_DUMP_SIGNAL`, of which it must differ.",
    },
    Variable {
        name: "NCCL_OTF2_WINDOW",
        values: "`100-200`, `100-`, comma-separated, or `none`",
        default: "`none`",
        doc: "Steps to record: from which collective to which one of the largest communicator, counted from 1 ([CONTROL.md](CONTROL.md)).",
    },
    Variable {
        name: "NCCL_OTF2_JOURNAL_DIR",
        values: "path (with `%h %p %j %r`)",
        default: "inside `NCCL_OTF2_DIR`",
        doc: "Where the journals lie while the job runs, for jobs whose output directory is slow to map (some network file systems) or small: node-local storage. A journal there can be turned into an archive on its own node only.",
    },
    Variable {
        name: "NCCL_OTF2_MAX_SIZE",
        values: "bytes, with K, M, G or T",
        default: "`8G`",
        doc: "Most disk space for the journal of one process. 3M at least: each recording thread needs 1M, the plugin's own thread another. When it is reached recording stops, the rest is counted, and the archive says so.",
    },
    Variable {
        name: "NCCL_OTF2_FINALIZE",
        values: "`inline` or `offline`",
        default: "`inline`",
        doc: "`inline` writes the archive at the last `ncclCommDestroy` or at exit; `offline` leaves the journals to `nccl-otf2 finalize`.",
    },
    Variable {
        name: "NCCL_OTF2_FINALIZE_TIMEOUT",
        values: "seconds",
        default: "`60`",
        doc: "Longest time that writing inline may take; then the journal stays and the closing line names the command that finishes the work.",
    },
    Variable {
        name: "NCCL_OTF2_KEEP_JOURNAL",
        values: "`0` or `1`",
        default: "`0`",
        doc: "Keep the journal when it has been written, so that it can be written again by another version.",
    },
    Variable {
        name: "NCCL_OTF2_LEVEL",
        values: "`light`, `standard` or `full`",
        default: "`full`",
        doc: "What of the recorded goes into the archive, with the sets of `NCCL_OTF2_EVENTS`. The rest is counted, and still tells when operations ran. `nccl-otf2 finalize --level` changes it afterwards where the journals were kept.",
    },
    Variable {
        name: "NCCL_OTF2_METRICS",
        values: "`bytes-in-flight`, `bandwidth`, `network-bandwidth`, comma-separated; `all` or `none`",
        default: "`none`",
        doc: "Metrics to write. `nccl-otf2 finalize --metrics` changes it afterwards where the journals were kept.",
    },
    Variable {
        name: "NCCL_OTF2_COMM_LANES",
        values: "`stream` or `cpu`",
        default: "`stream`",
        doc: "What the rows of communicators are: streams of the GPU, or threads of the process for tools that show communication of threads only. `nccl-otf2 finalize --comm-lanes` changes it afterwards.",
    },
    Variable {
        name: "NCCL_OTF2_COLLECTIVES",
        values: "`blocking`, `nonblocking` or `none`",
        default: "`blocking`",
        doc: "Which communication records collectives have: a pair around the operation, a request when it was enqueued and its completion, or none. `nccl-otf2 finalize --collectives` changes it afterwards where the journals were kept.",
    },
    Variable {
        name: "NCCL_OTF2_GPU",
        values: "`auto`, `cupti`, `events` or `off`",
        default: "`auto`",
        doc: "How it is found out when GPUs did what NCCL launched ([GPU.md](GPU.md)). `cupti`: by CUPTI's records. `events`: by CUDA events around launches, which disturb no other tool. `auto`: by CUPTI unless another tool may use it, else by events; a line says which. `off`: nothing of CUDA's is called, and the trace does not say which GPUs there are either.",
    },
    Variable {
        name: "NCCL_OTF2_CUPTI_KERNELS",
        values: "`nccl` or `all`",
        default: "`nccl`",
        doc: "With CUPTI: which kernels are written down, NCCL's or all of the process.",
    },
    Variable {
        name: "NCCL_OTF2_CUPTI_LIB",
        values: "path",
        default: "the library that is loaded already, else the one that fits the CUDA runtime",
        doc: "With CUPTI: the file of its library.",
    },
    Variable {
        name: "NCCL_OTF2_SCOREP",
        values: "`auto`, `on` or `off`",
        default: "`auto`",
        doc: "Whether calls and operations are shown in a measurement of Score-P that runs in the same process ([SCOREP.md](SCOREP.md)), beside our own archive. `on` warns where that cannot be done.",
    },
    Variable {
        name: "NCCL_OTF2_VERBOSITY",
        values: "`quiet`, `normal` or `verbose`",
        default: "`normal`",
        doc: "`normal`: one line at start and one at the end through NCCL's log (`NCCL_DEBUG=INFO` shows them), warnings on stderr as well. `quiet`: warnings only. `verbose`: both lines on stderr too, and what was decided; below NCCL 2.27, which lends plugins no log, only this shows them.",
    },
];

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

const fn mask_of(kinds: &[Kind]) -> u32 {
    let mut mask = 0;
    let mut index = 0;
    while index < kinds.len() {
        #[expect(
            clippy::indexing_slicing,
            reason = "in a constant: evaluated by the compiler"
        )]
        let kind = kinds[index];
        mask |= kind.mask();
        index += 1;
    }
    mask
}

/// API calls, launches, collectives, point-to-point and copy-engine events.
pub const LIGHT: u32 = mask_of(&[
    Kind::GroupApi,
    Kind::CollApi,
    Kind::P2pApi,
    Kind::KernelLaunch,
    Kind::Group,
    Kind::Coll,
    Kind::P2p,
    Kind::CeColl,
    Kind::CeSync,
    Kind::CeBatch,
]);
/// [`LIGHT`] and proxy operations.
pub const STANDARD: u32 = LIGHT | Kind::ProxyOp.mask();
/// Everything.
pub const FULL: u32 = 0xffff;

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

    /// Most bytes of journal. A window has room above it: the keeper may be late to remove what is old.
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

fn choice<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(value));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let nearest = names
            .iter()
            .min_by_key(|name| distance(&value.to_ascii_lowercase(), name));
        format!(
            "not one of {}; nearest: {}; the default is used",
            names.join(", "),
            nearest.unwrap_or(&"")
        )
    })
}

/// Reads a size: bytes, or with a binary suffix.
fn size(value: &str) -> Result<u64, String> {
    let bad = || "not a size like 512M or 8G; 8G is used".to_owned();
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match value
        .get(digits.len()..)
        .unwrap_or("")
        .trim()
        .to_ascii_uppercase()
        .trim_end_matches("IB")
    {
        "" | "B" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        "T" | "TB" => 40,
        _ => return Err(bad()),
    };
    let count: u64 = digits.parse().map_err(|_| bad())?;
    count.checked_mul(1 << shift).ok_or_else(bad)
}

/// Reads a signal that a program may use as it likes; `None` for no signal.
fn signal(value: &str) -> Result<Option<i32>, String> {
    let name = value.to_ascii_uppercase();
    match name.strip_prefix("SIG").unwrap_or(&name) {
        "NONE" | "OFF" | "0" => return Ok(None),
        "USR1" => return Ok(Some(libc::SIGUSR1)),
        "USR2" => return Ok(Some(libc::SIGUSR2)),
        _ => {}
    }
    let free = |number: i32| {
        [libc::SIGUSR1, libc::SIGUSR2].contains(&number)
            || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number)
    };
    let number = name.parse().ok().filter(|&number| free(number));
    number.map(Some).ok_or_else(|| {
        "not USR1, USR2, the number of a real-time signal, or none; the default is used".to_owned()
    })
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads an event set: presets, kinds, `-kind`, numbers.
///
/// # Errors
/// Names the word that means nothing, the nearest that does, and what is used instead.
pub fn event_mask(text: &str) -> Result<u32, String> {
    event_kinds(text).map_err(|reason| format!("{reason}; `standard` is used"))
}

/// [`event_mask`] for who has no default.
///
/// # Errors
/// Names the word that means nothing, and the nearest that does.
pub fn event_kinds(text: &str) -> Result<u32, String> {
    let mut mask = 0;
    for word in text
        .split([',', ' ', '+'])
        .map(str::trim)
        .filter(|word| !word.is_empty())
    {
        let (remove, word) = match word.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let bits = event_bits(word)?;
        mask = if remove {
            mask & !with_dependents(bits)
        } else {
            mask | bits
        };
    }
    Ok(mask)
}

/// NCCL from 2.31 adds KernelCh to a mask that has KernelPhase: without channels there are no phases.
const fn with_dependents(removed: u32) -> u32 {
    if removed & Kind::KernelCh.mask() == 0 {
        removed
    } else {
        removed | Kind::KernelPhase.mask()
    }
}

fn event_bits(word: &str) -> Result<u32, String> {
    if let Some(bits) = number(word) {
        return u32::try_from(bits)
            .map(|bits| bits & FULL)
            .map_err(|_| format!("{word} is no event mask"));
    }
    let plain = word.to_ascii_lowercase().replace(['-', '_'], "");
    let plain = plain.strip_prefix("ncclprofile").unwrap_or(&plain);
    let presets = [
        ("light", LIGHT),
        ("standard", STANDARD),
        ("full", FULL),
        ("all", FULL),
        ("none", 0),
    ];
    let kinds = Kind::ALL
        .iter()
        .filter(|kind| **kind != Kind::Unknown)
        .map(|kind| (kind.name(), kind.mask()));
    let known: Vec<(&str, u32)> = presets.into_iter().chain(kinds).collect();
    match known
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(plain))
    {
        Some((_, bits)) => Ok(*bits),
        None => {
            let nearest = known
                .iter()
                .min_by_key(|(name, _)| distance(plain, &name.to_ascii_lowercase()));
            Err(format!(
                "{word} is no preset or event kind (nearest: {})",
                nearest.map_or("", |n| n.0)
            ))
        }
    }
}

/// The kinds of a mask by name, for people.
#[must_use]
pub fn event_names(mask: u32) -> Vec<&'static str> {
    Kind::ALL
        .iter()
        .filter(|kind| mask & kind.mask() != 0)
        .map(|kind| kind.name())
        .collect()
}

/// How many single-letter changes lie between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, to) in row.iter_mut().skip(1).zip(&b) {
            let above = *cell;
            let best = (diagonal + usize::from(from != *to))
                .min(above + 1)
                .min(left + 1);
            diagonal = above;
            left = best;
            *cell = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// What `%h %p %j %r` stand for.
#[derive(Clone, Debug)]
pub struct Place {
    /// Host name.
    pub host: String,
    /// Process id.
    pub process_id: u32,
    /// Job id, if the environment has one.
    pub job: Option<String>,
    /// Rank, if the environment has one.
    pub rank: Option<u32>,
}

/// Fills in a directory template. What is not known becomes `unknown`; the result has no `/` from values.
#[must_use]
pub fn expand(template: &str, place: &Place) -> String {
    let clean = |text: &str| text.replace(['/', '\0'], "_");
    let mut result = String::new();
    let mut letters = template.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        match letters.next() {
            Some('h') => result.push_str(&clean(&place.host)),
            Some('p') => result.push_str(&place.process_id.to_string()),
            Some('j') => result.push_str(&clean(place.job.as_deref().unwrap_or("unknown"))),
            Some('r') => match place.rank {
                Some(rank) => result.push_str(&rank.to_string()),
                None => result.push_str("unknown"),
            },
            Some('%') => result.push('%'),
            Some(other) => {
                result.push('%');
                result.push(other);
            }
            None => result.push('%'),
        }
    }
    result
}

#[cfg(test)]
mod tests;
