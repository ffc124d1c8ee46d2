//! Dates for names of directories.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, in UTC, as `20261121-100312`.
pub(crate) fn now() -> String {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    date_and_time(since_1970.as_secs())
}

fn date_and_time(seconds: u64) -> String {
    let (mut day, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    while day >= days_of_year(year) {
        day -= days_of_year(year);
        year += 1;
    }
    let february = days_of_year(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!(
        "{year:04}{month:02}{:02}-{hour:02}{minute:02}{second:02}",
        day + 1
    )
}

const fn days_of_year(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    if is_leap { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use super::date_and_time;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_and_time(0), "19700101-000000");
        assert_eq!(date_and_time(951_782_399), "20000228-235959");
        assert_eq!(date_and_time(951_782_400), "20000229-000000");
        assert_eq!(date_and_time(978_307_199), "20001231-235959");
        assert_eq!(date_and_time(1_795_255_392), "20261121-100312");
    }
}
