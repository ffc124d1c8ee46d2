//! The variables of the environment, read once: `README.md` has what they mean.

use crate::level;
use std::sync::OnceLock;

/// How another tool has subscribed before the process under test could.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    V1,
    V2,
    V2Shared,
}

pub(crate) struct Variables {
    pub(crate) level: u32,
    pub(crate) kernel_ns: u64,
    pub(crate) split: bool,
    /// The records of a buffer, and the buffers of a flush, come in the reverse order.
    pub(crate) reversed: bool,
    pub(crate) zero_times: u64,
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

pub(crate) fn fatal(text: &str) -> ! {
    c_double::fatal("fakecupti", text)
}

/// The variables of this process. A name or a value that there is not ends it: no test passes because of one.
pub(crate) fn get() -> &'static Variables {
    static VARIABLES: OnceLock<Variables> = OnceLock::new();
    VARIABLES.get_or_init(|| {
        let mut given = c_double::Variables::with_prefix("FAKECUPTI_");
        let holders = [("v1", Holder::V1), ("v2", Holder::V2), ("v2-shared", Holder::V2Shared)];
        let known_level = |text: &str| text.parse().ok().filter(|level| level::is_known(*level));
        let variables = Variables {
            level: given.parsed("API", known_level).unwrap_or(130_500),
            kernel_ns: given.number("KERNEL_NS", 20_000),
            split: given.is_on("SPLIT"),
            reversed: given.word("ORDER", &[("made", false), ("reversed", true)]),
            zero_times: given.number("ZERO_TIMES", 0),
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
        given.end();
        variables
    })
}
