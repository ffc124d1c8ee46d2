//! Dates, in directory names and for people.

pub(crate) fn now() -> String {
    settings::date_and_time(journal::clock::realtime_ns() / 1_000_000_000)
}

/// A time in ns since 1970, as UTC, such as `2026-11-21 10:03:12 UTC`.
pub(crate) fn moment(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(ns.into())
        .map_or_else(|_| "an unknown day".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}
