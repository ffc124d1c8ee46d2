//! Dates for names of directories.

/// Now, in UTC, as `20261121-100312`.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S").to_string()
}
