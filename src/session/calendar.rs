//! Dates for the names of directories.

/// `20261121-100312` in UTC. Days to a civil date by counting from 1 March 0000, as the calendar repeats
/// every 400 years of 146 097 days.
pub(crate) fn date_and_time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = year + era * 400 + carry;
    format!(
        "{year:04}{month:02}{date:02}-{:02}{:02}{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil() {
        assert_eq!(date_and_time(0), "19700101-000000");
        assert_eq!(date_and_time(951_782_399), "20000228-235959");
        assert_eq!(date_and_time(951_782_400), "20000229-000000");
        assert_eq!(date_and_time(1_795_255_392), "20261121-100312");
    }
}
