//! The variables of the environment, read once: `README.md` has what they mean.

use c_double::Variables;
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Driver {
    There,
    Absent,
    Stub,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Events {
    Work,
    CannotBeMade,
    CannotBeRecorded,
    NeverDone,
}

pub(crate) struct Settings {
    pub(crate) stores_wrong_results: bool,
    pub(crate) clock_ppm: i64,
    pub(crate) clock_offset_ns: i64,
    pub(crate) mig: bool,
    pub(crate) driver: Driver,
    /// A thread has no context before it was given one.
    pub(crate) has_own_contexts: bool,
    pub(crate) events: Events,
    pub(crate) captures_globally: bool,
}

/// The settings of this process. A name or a value that there is not ends it: no test passes because of one.
pub(crate) fn get() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let mut given = Variables::with_prefix("FAKEGPU_");
        let drivers = [("there", Driver::There), ("absent", Driver::Absent), ("stub", Driver::Stub)];
        let events = [
            ("work", Events::Work),
            ("none", Events::CannotBeMade),
            ("record-fails", Events::CannotBeRecorded),
            ("never-done", Events::NeverDone),
        ];
        let settings = Settings {
            stores_wrong_results: given.is_on("FAULT"),
            clock_ppm: given.number("CLOCK_PPM", 0),
            clock_offset_ns: given.number("CLOCK_OFFSET_NS", 0),
            mig: given.is_on("MIG"),
            driver: given.word("DRIVER", &drivers),
            has_own_contexts: given.word("CONTEXTS", &[("given", false), ("own", true)]),
            events: given.word("EVENTS", &events),
            captures_globally: given.word("CAPTURE_MODE", &[("as-asked", false), ("global", true)]),
        };
        given.end();
        settings
    })
}
