//! What a process of the job had done when it ended: the file that `plugin-host endure` counts in.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use whole_plugin::kinds::KINDS;

use super::ends::Request;

const WORD: usize = size_of::<u64>();
const THREAD_WORDS: usize = 64;
/// What a callback was, in the order of the file, by the names that a part gives its numbers.
const CALLS: [&str; 3] = ["seen", "stops", "states"];

/// Numbers of callbacks, by what they were: `("Coll", "stops")`.
pub(crate) type Numbers = BTreeMap<(String, &'static str), u64>;

/// Callbacks that had returned. None from a process that did not get so far as to make the file.
pub(crate) fn returned(path: &Path) -> Numbers {
    let bytes = std::fs::read(path).unwrap_or_default();
    let (words, _) = bytes.as_chunks::<WORD>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let mut numbers = Numbers::new();
    for thread in words.chunks(THREAD_WORDS).skip(1) {
        for (calls, name) in thread.chunks(KINDS.len()).zip(CALLS) {
            for (number, kind) in calls.iter().zip(KINDS) {
                if *number > 0 {
                    *numbers.entry((kind.to_owned(), name)).or_default() += number;
                }
            }
        }
    }
    numbers
}

pub(crate) fn recorded(definitions: &serde_json::Value, into: &mut Numbers) {
    let kinds = definitions["counts"]["kinds"].as_object().expect("numbers by kind");
    for (kind, numbers) in kinds {
        for name in CALLS {
            let number = numbers[name].as_u64().expect("a number");
            if number > 0 {
                *into.entry((kind.clone(), name)).or_default() += number;
            }
        }
    }
}

/// Asks a process for an end. One that has not made its file yet is not asked.
pub(crate) fn ask(path: &Path, end: Request) {
    if let Ok(file) = OpenOptions::new().write(true).open(path) {
        file.write_all_at(&(end as u64).to_le_bytes(), 0).expect("write to a ledger");
    }
}
