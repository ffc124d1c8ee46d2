//! The variables of the environment, read once: `README.md` has what they mean.

use crate::level;
use crate::process::fatal;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// In which order the records of a buffer, and the buffers of a flush, are handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    AsMade,
    Reversed,
    /// by a generator that starts from this number
    Shuffled(u64),
}

/// How another tool has subscribed before the process under test could.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    V1,
    V2,
    /// with others allowed
    V2Shared,
}

/// What is asked of the double.
pub(crate) struct Variables {
    pub(crate) level: u32,
    pub(crate) kernel_len: Option<usize>,
    pub(crate) kernel_ns: u64,
    pub(crate) late_ms: u64,
    pub(crate) split: bool,
    pub(crate) order: Order,
    pub(crate) zero_times: u64,
    pub(crate) no_names: bool,
    pub(crate) drop_kernels: u64,
    pub(crate) partial: bool,
    pub(crate) foreign_buffer: bool,
    pub(crate) taken: Option<String>,
    pub(crate) taken_by: Holder,
    pub(crate) takeover_after: u64,
    pub(crate) init: Option<i32>,
    pub(crate) old_driver: bool,
    /// CUPTI's clock counts ticks, 2.9 per nanosecond
    pub(crate) foreign_clock: bool,
}

/// The values given, by name; what is taken out is known.
struct Given(BTreeMap<String, String>);

impl Given {
    fn text(&mut self, name: &str) -> Option<String> {
        self.0.remove(&format!("FAKECUPTI_{name}"))
    }

    fn parsed<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let value = parse(&text);
        if value.is_none() {
            fatal(&format!("FAKECUPTI_{name}={text} is not a value of it"));
        }
        value
    }

    fn number(&mut self, name: &str, default: u64) -> u64 {
        self.parsed(name, |text| text.parse().ok()).unwrap_or(default)
    }

    fn is_on(&mut self, name: &str) -> bool {
        self.word(name, &[("0", false), ("1", true)])
    }

    /// One of these words, the first of which is the default.
    fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> T {
        let of = |text: &str| words.iter().find(|(word, _)| *word == text);
        self.parsed(name, |text| of(text).map(|(_, value)| *value)).unwrap_or(words[0].1)
    }
}

fn order(text: &str) -> Option<Order> {
    match text {
        "reversed" => Some(Order::Reversed),
        _ => text.strip_prefix("shuffled:")?.parse().ok().map(Order::Shuffled),
    }
}

/// The variables of this process. A name or a value that there is not ends it: no test passes because of one.
pub(crate) fn get() -> &'static Variables {
    static VARIABLES: OnceLock<Variables> = OnceLock::new();
    VARIABLES.get_or_init(|| {
        let ours = std::env::vars().filter(|(name, _)| name.starts_with("FAKECUPTI_"));
        let mut given = Given(ours.collect());
        // For the end of the process.
        let _ = given.text("REPORT");
        let holders = [("v1", Holder::V1), ("v2", Holder::V2), ("v2-shared", Holder::V2Shared)];
        let known_level = |text: &str| text.parse().ok().filter(|level| level::is_known(*level));
        let variables = Variables {
            level: given.parsed("API", known_level).unwrap_or(130_500),
            kernel_len: given.parsed("KERNEL_LEN", |text| {
                let len: usize = text.parse().ok()?;
                (len >= 200 && len.is_multiple_of(8)).then_some(len)
            }),
            kernel_ns: given.number("KERNEL_NS", 20_000),
            late_ms: given.number("LATE_MS", 0),
            split: given.is_on("SPLIT"),
            order: given.parsed("ORDER", order).unwrap_or(Order::AsMade),
            zero_times: given.number("ZERO_TIMES", 0),
            no_names: given.is_on("NO_NAMES"),
            drop_kernels: given.number("DROP", 0),
            partial: given.is_on("PARTIAL"),
            foreign_buffer: given.is_on("FOREIGN_BUFFER"),
            taken: given.text("TAKEN"),
            taken_by: given.word("TAKEN_BY", &holders),
            takeover_after: given.number("TAKEOVER_AFTER", 0),
            init: given.parsed("INIT", |text| text.parse().ok()),
            old_driver: given.is_on("OLD_DRIVER"),
            foreign_clock: given.word("CLOCK", &[("realtime", false), ("foreign", true)]),
        };
        if let Some((name, _)) = given.0.first_key_value() {
            fatal(&format!("there is no variable {name}"));
        }
        variables
    })
}
