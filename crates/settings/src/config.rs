//! The settings of one process with their defaults ([`Config`]), and how their values are written: step ranges, sets of
//! event kinds, choices, sizes, signals.

use std::fmt;
use std::time::Duration;

use journal::part::environment::Level;
use journal::writer::Retention;
use nccl_events::Kind;
use nccl_events::gpu::Backend;

pub use nccl_events::{FULL, LIGHT, STANDARD, Span as StepRange, event_names};

/// What the plugin records (`NCCL_OTF2_STEPS`), by numbers of collectives or of a named NVTX range: sorted,
/// non-adjacent ranges. Without any range, everything is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRanges {
    name: Option<String>,
    ranges: Vec<StepRange>,
}

impl StepRanges {
    /// The limit is low because callbacks search the ranges.
    pub const MOST: usize = 16;

    /// Parses `100-200`, `100-` (to the end), `100`, or several separated by commas: collectives. `NAME:100-200`
    /// selects NVTX ranges with this name, `NAME` all of these. `none` removes the limit.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::default());
        }
        let is_list = |text: &str| text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        let (name, list) = match text.rsplit_once(':') {
            Some((name, list)) if is_list(list.trim()) => (Some(name), list),
            None if is_list(text.trim()) || text.is_empty() => (None, text),
            _ => (Some(text), "1-"),
        };
        let name = name.map(|name| name.trim().to_owned());
        if let Some(name) = &name {
            check_name(name)?;
        }
        let words = list.split(',').map(str::trim);
        let mut ranges: Vec<StepRange> = words.map(range).collect::<Result<_, _>>()?;
        nccl_events::sort::sort(&mut ranges);
        let mut joined: Vec<StepRange> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(previous) if range.first <= previous.last.saturating_add(1) => {
                    previous.last = previous.last.max(range.last);
                }
                _ => joined.push(range),
            }
        }
        if joined.len() > Self::MOST {
            return Err(format!("{} ranges; {} at most", joined.len(), Self::MOST));
        }
        Ok(Self { name, ranges: joined })
    }

    /// The name of the NVTX ranges that are the steps; `None` if collectives are.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[StepRange] {
        &self.ranges
    }

    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let number = name.split(|part: char| !part.is_ascii_alphanumeric()).find(|word| is_number(word));
    if name.is_empty() {
        Err("there is no name before the colon".to_owned())
    } else if name.contains(',') {
        Err(format!("\"{name}\" is not the name of a range; only one name can be given"))
    } else if let Some(number) = number {
        let recorded = name.replace(number, "#");
        Err(format!(
            "a number is not part of the name of a range: \"{recorded}:5-10\" selects the 5th to the 10th range \
            \"{recorded}\""
        ))
    } else {
        Ok(())
    }
}

/// As [`StepRanges::parse`] reads it; empty without any range.
impl fmt::Display for StepRanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranges: Vec<String> = self.ranges.iter().map(StepRange::to_string).collect();
        if let (Some(name), [StepRange { first: 1, last: u32::MAX }]) = (&self.name, self.ranges.as_slice()) {
            return formatter.write_str(name);
        }
        let name = self.name.as_ref().map_or_else(String::new, |name| format!("{name}:"));
        write!(formatter, "{name}{}", ranges.join(","))
    }
}

fn range(word: &str) -> Result<StepRange, String> {
    let (first, last) = match word.split_once('-') {
        Some((first, last)) => (first.trim(), last.trim()),
        None => (word, word),
    };
    let number = |text: &str| -> Result<u32, String> {
        text.parse()
            .map_err(|_| format!("\"{word}\" is not a range of steps like 100-200 (100- for all from the 100th on)"))
    };
    let first = number(first)?;
    let last = if last.is_empty() { u32::MAX } else { number(last)? };
    if first == 0 {
        Err(format!("\"{word}\": steps are counted from 1"))
    } else if last < first {
        Err(format!("\"{word}\" ends before it begins"))
    } else {
        Ok(StepRange { first, last })
    }
}

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
    pub(crate) const CHOICES: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("on", Self::On), ("calls", Self::Calls), ("off", Self::Off)];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalize {
    /// When the process's recording ends.
    Inline,
    Offline,
}

impl Finalize {
    pub(crate) const CHOICES: &'static [(&'static str, Self)] = &[("inline", Self::Inline), ("offline", Self::Offline)];
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
    pub(crate) const CHOICES: &'static [(&'static str, Self)] =
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
    pub(crate) const CHOICES: &'static [(&'static str, Self)] =
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
    pub(crate) const CHOICES: &'static [(&'static str, Self)] =
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
    pub level: Level,
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
            level: Level::default(),
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// Calls no CUDA function.
    Off,
    /// CUPTI unless another tool may use it, else CUDA events.
    #[default]
    Auto,
    Cupti,
    Events,
}

impl BackendChoice {
    pub(crate) const CHOICES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("auto", Self::Auto), ("cupti", Self::Cupti), ("events", Self::Events)];
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuptiKernels {
    #[default]
    Nccl,
    All,
}

impl CuptiKernels {
    pub(crate) const CHOICES: &'static [(&'static str, Self)] = &[("nccl", Self::Nccl), ("all", Self::All)];
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuSettings {
    pub backend: BackendChoice,
    pub kernels: CuptiKernels,
    pub cupti_library: Option<String>,
}

/// The advice for a user who asks for all kernels, which only CUPTI records, and gets this backend.
pub fn without_all_kernels(kernels: CuptiKernels, backend: Backend) -> Option<&'static str> {
    let has_no_effect = kernels == CuptiKernels::All && backend == Backend::Events;
    has_no_effect.then_some(
        "NCCL_OTF2_CUPTI_KERNELS=all has no effect, because CUDA events time only NCCL's launches: also set \
        NCCL_OTF2_GPU=cupti, and use no other GPU profiler in this job, such as PyTorch's, which may then get nothing",
    )
}

/// Parses one word from a list, ignoring case.
pub(crate) fn choice<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let near = nearest(value, names.iter().copied()).map_or_else(String::new, |near| format!("; nearest: {near}"));
        format!("not one of {}{near}; the default is used", names.join(", "))
    })
}

pub(crate) fn size(value: &str) -> Result<u64, String> {
    let bad = || "not a size like 512M or 8G; 8G is used".to_owned();
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match value.get(digits.len()..).unwrap_or("").trim().to_ascii_uppercase().trim_end_matches("IB") {
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

/// Parses a signal that programs may use freely; `None` for no signal.
pub(crate) fn signal(value: &str) -> Result<Option<i32>, String> {
    let name = value.to_ascii_uppercase();
    match name.strip_prefix("SIG").unwrap_or(&name) {
        "NONE" | "OFF" | "0" => return Ok(None),
        "USR1" => return Ok(Some(libc::SIGUSR1)),
        "USR2" => return Ok(Some(libc::SIGUSR2)),
        _ => {}
    }
    let free = |number: i32| {
        [libc::SIGUSR1, libc::SIGUSR2].contains(&number) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number)
    };
    let number = name.parse().ok().filter(|&number| free(number));
    number
        .map(Some)
        .ok_or_else(|| "not USR1, USR2, the number of a real-time signal, or none; the default is used".to_owned())
}

pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The known word that differs least; `None` if it differs in more than half of its letters.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |known: &str| strsim::levenshtein(&word.to_ascii_lowercase(), &known.to_ascii_lowercase());
    known.min_by_key(|known| distance(known)).filter(|near| 2 * distance(near) <= near.len())
}

/// Reads an event set: presets, kinds, `-kind`, numbers.
pub fn event_mask(text: &str) -> Result<u32, String> {
    event_kinds(text).map_err(|reason| format!("{reason}; `standard` is used"))
}

/// As [`event_mask`], for callers without a default.
pub fn event_kinds(text: &str) -> Result<u32, String> {
    let mut mask = 0;
    for word in text.split([',', ' ', '+']).map(str::trim).filter(|word| !word.is_empty()) {
        let (remove, word) = match word.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, word),
        };
        let bits = event_bits(word)?;
        mask = if remove { mask & !with_dependents(bits) } else { mask | bits };
    }
    Ok(mask)
}

/// NCCL from 2.31 adds KernelCh to a mask that has KernelPhase: without channels there are no phases.
const fn with_dependents(removed: u32) -> u32 {
    if removed & Kind::KernelCh.mask() == 0 { removed } else { removed | Kind::KernelPhase.mask() }
}

fn event_bits(word: &str) -> Result<u32, String> {
    if let Some(bits) = number(word) {
        return u32::try_from(bits).map(|bits| bits & FULL).map_err(|_| format!("{word} is not an event mask"));
    }
    let plain = word.to_ascii_lowercase().replace(['-', '_'], "");
    let plain = plain.strip_prefix("ncclprofile").unwrap_or(&plain);
    let presets = [("light", LIGHT), ("standard", STANDARD), ("full", FULL), ("all", FULL), ("none", 0)];
    let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Unknown).map(|kind| (kind.name(), kind.mask()));
    let known: Vec<(&str, u32)> = presets.into_iter().chain(kinds).collect();
    match known.iter().find(|(name, _)| name.eq_ignore_ascii_case(plain)) {
        Some((_, bits)) => Ok(*bits),
        None => {
            let near = nearest(plain, known.iter().map(|(name, _)| *name));
            let near = if ["everything", "max", "maximum", "detailed"].contains(&plain) { Some("full") } else { near };
            let near = near.map_or_else(String::new, |near| format!(" (nearest: {near})"));
            Err(format!("{word} is not a preset or event kind{near}"))
        }
    }
}

/// Names a mask by its preset, or else by its kinds.
pub fn event_set(mask: u32) -> String {
    match mask {
        LIGHT => "light".to_owned(),
        STANDARD => "standard".to_owned(),
        FULL => "full".to_owned(),
        _ => event_names(mask).join(","),
    }
}

// The plugin cannot prevent what recording kernel channels costs and risks, so it warns once.

/// The warning for a user who records kernel channels on this release (22809 = 2.28.9; 0 = unknown). `allgatherv_off`:
/// `NCCL_ALLGATHERV_ENABLE` is 0.
pub fn kernel_channels(nccl_version: u32, allgatherv_off: bool) -> String {
    let text = match nccl_version {
        // NVIDIA/nccl #2039, fixed in 2.28.3; 2.26.2 also hangs after graph capture.
        22_600..22_800 => {
            "NCCL 2.26 and 2.27 can fail with \"Proxy append out of bounds\" in all-to-all with more than 64 peers, and 2.26.2 can hang after graph capture"
        }
        // Observed with the real libraries: the device counts work that the host does not count.
        22_900..23_100 if !allgatherv_off => {
            "NCCL 2.29 and 2.30 can hang in ncclCommDestroy after grouped broadcasts, or after a send to oneself and then a broadcast, unless NCCL_ALLGATHERV_ENABLE=0"
        }
        // NVIDIA/nccl #2355; rocm-systems #11860 describes the same teardown order.
        23_100.. => {
            "NCCL 2.31 and later measures phases in the kernel, which slows operations of 128 KiB to 4 MiB by up to \
            13 %, and can crash when a communicator is destroyed or aborted before its work is done: synchronise the \
            device first"
        }
        _ => "NCCL then sends even operations inside a node through its proxy thread, at some 9 µs each",
    };
    // NVIDIA/nccl #2369: the device counts broadcasts that the host does not count.
    match nccl_version {
        23_100.. if !allgatherv_off => format!(
            "{text}; after a broadcast, unless NCCL_ALLGATHERV_ENABLE=0, kernel channels have the times of other operations, and NCCL can crash when the communicator is destroyed"
        ),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    mod steps {
        use crate::config::*;

        fn read(text: &str) -> Result<Vec<(u32, u32)>, String> {
            let steps = StepRanges::parse(text)?;
            Ok(steps.ranges().iter().map(|range| (range.first, range.last)).collect())
        }

        #[test]
        fn ranges_are_sorted_and_joined() {
            assert_eq!(read("100-200"), Ok(vec![(100, 200)]));
            assert_eq!(read("100-110, 1-3,7"), Ok(vec![(1, 3), (7, 7), (100, 110)]));
            assert_eq!(read("1-3,4-6,5-"), Ok(vec![(1, u32::MAX)]));
            assert_eq!(read("none"), Ok(vec![]));
        }

        #[test]
        fn steps_have_a_name() {
            let of = |text: &str| {
                let steps = StepRanges::parse(text).expect(text);
                (steps.name().map(str::to_owned), read(text).expect(text))
            };
            for (text, name, ranges) in [
                ("step:100-200,7", "step", vec![(7, 7), (100, 200)]),
                ("train: step #:3-", "train: step #", vec![(3, u32::MAX)]),
                ("backward", "backward", vec![(1, u32::MAX)]),
                ("aten::mm", "aten::mm", vec![(1, u32::MAX)]),
            ] {
                assert_eq!(of(text), (Some(name.to_owned()), ranges), "{text}");
                let shown = StepRanges::parse(text).expect(text).to_string();
                assert_eq!(StepRanges::parse(&shown), StepRanges::parse(text), "{shown}");
            }
            assert_eq!(StepRanges::parse("backward").expect("a name").to_string(), "backward");
        }

        #[test]
        fn an_error_names_the_word() {
            for (text, named) in [
                ("", "\"\" is not a range"),
                ("7-b", "\"7-b\" is not a range of steps like 100-200"),
                ("step:7-b", "\"7-b\" is not a range of steps like 100-200"),
                (":7", "no name before the colon"),
                ("step 3", "\"step #:5-10\" selects the 5th to the 10th range \"step #\""),
                ("backward,eval", "only one name can be given"),
                ("1-3,9-7", "\"9-7\" ends before it begins"),
                ("0-7", "counted from 1"),
                ("-7", "\"-7\" is not a range"),
                ("1-99999999999", "is not a range"),
            ] {
                let reason = read(text).expect_err(text);
                assert!(reason.contains(named), "{text}: {reason}");
            }
            let many: Vec<String> = (1..=17).map(|n| (2 * n).to_string()).collect();
            let reason = read(&many.join(",")).expect_err("too many");
            assert_eq!(reason, "17 ranges; 16 at most");
        }
    }

    mod gpu {
        use crate::config::*;

        #[test]
        fn all_kernels_need_cupti() {
            use crate::config::CuptiKernels::{All, Nccl};
            let line = without_all_kernels(All, Backend::Events).expect("a line");
            assert!(line.contains("NCCL_OTF2_CUPTI_KERNELS=all") && line.contains("set NCCL_OTF2_GPU=cupti"), "{line}");
            assert!(line.len() <= nccl_events::Name::MAX_BYTES, "it fits into the journal");
            for (kernels, backend) in [(All, Backend::Cupti), (Nccl, Backend::Events), (All, Backend::Off)] {
                assert_eq!(without_all_kernels(kernels, backend), None);
            }
        }
    }
}
