//! Formats numbers for people, and parses theirs.

pub(crate) use analysis::units::{bandwidth, bytes, count, plural, time};

pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds, such as 10 or 0.5".to_owned()),
    }
}
