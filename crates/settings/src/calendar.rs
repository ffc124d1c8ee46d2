//! Dates in directory names.

use std::mem::MaybeUninit;

/// Formats seconds since 1970 as `20261121-100312`, in UTC.
pub fn date_and_time(seconds: u64) -> String {
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

/// Converts seconds since 1970 to date and time in UTC.
fn utc(seconds: u64) -> libc::tm {
    let seconds = libc::time_t::try_from(seconds).unwrap_or(0);
    let mut time = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers point to variables that live during the call.
    unsafe { libc::gmtime_r(&raw const seconds, time.as_mut_ptr()) };
    // SAFETY: all zeroes are a valid value, whether or not gmtime_r filled it.
    unsafe { time.assume_init() }
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
