//! Variables of the environment.

use crate::log::warning;

/// The number that a variable has.
pub(crate) fn number(name: &str) -> Option<i64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Which of these words a variable has; the first if it is not set, and, with a warning, if it has another.
pub(crate) fn choice<T: Copy>(name: &str, words: &[(&str, T)]) -> T {
    let own = std::env::var(name).unwrap_or_else(|_| words[0].0.to_owned());
    let found = words.iter().find(|(word, _)| *word == own);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        warning!("{name}={own}: one of {} is meant", known.join(", "));
    }
    found.unwrap_or(&words[0]).1
}
