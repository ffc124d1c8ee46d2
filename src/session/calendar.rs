//! Dates in names of directories.

use crate::host::process::utc;

/// `20261121-100312`, in UTC, for a number of seconds since 1970.
pub(super) fn date_and_time(seconds: u64) -> String {
    let time = utc(seconds);
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        time.tm_year + 1900,
        time.tm_mon + 1,
        time.tm_mday,
        time.tm_hour,
        time.tm_min,
        time.tm_sec
    )
}

#[cfg(test)]
mod tests {
    use super::date_and_time;

    #[test]
    fn names_sort_by_time() {
        assert_eq!(date_and_time(0), "19700101-000000");
        assert_eq!(date_and_time(1_795_255_392), "20261121-100312");
    }
}
