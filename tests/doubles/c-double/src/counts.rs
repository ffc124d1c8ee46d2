//! Counts that a test asks for: it cannot see into the process otherwise. Each double has its own.

use crate::process::log_line;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;

static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts more, or, with 0, a name that is reported also while nothing was counted.
pub fn count(name: &'static str, more: u64) {
    *COUNTS.lock().entry(name).or_insert(0) += more;
}

pub fn counted(name: &str) -> u64 {
    COUNTS.lock().get(name).copied().unwrap_or(0)
}

pub fn all_counted() -> BTreeMap<&'static str, u64> {
    COUNTS.lock().clone()
}

/// Appends a line for each count, `process name count`, to the file that an environment variable names.
pub fn report(variable: &str) {
    let Some(path) = std::env::var_os(variable) else {
        return;
    };
    let pid = std::process::id();
    let line = |(name, count): (&&str, &u64)| format!("{pid} {name} {count}\n");
    let lines: String = COUNTS.lock().iter().map(line).collect();
    let file = OpenOptions::new().create(true).append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
        log_line(variable, &error.to_string());
    }
}
