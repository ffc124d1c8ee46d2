//! What happened, by name: for tests that cannot see into the process otherwise.

use crate::knobs::knobs;
use crate::log;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($name:ident: $text:literal,)*) => {
        $(
            #[doc = $text]
            pub(crate) static $name: Counter = Counter(AtomicU64::new(0));
        )*
        /// All of them, by name.
        const ALL: &[(&str, &Counter)] = &[$((stringify!($name), &$name)),*];
    };
}

/// Something that is counted.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, number: u64) -> u64 {
        self.0.fetch_add(number, Ordering::Relaxed) + number
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

counters! {
    API_CALLS: "launches and copies that were announced",
    API_RECORDS: "API records written",
    EXTERNAL_RECORDS: "external-correlation records written",
    KERNELS: "kernels that ran",
    KERNEL_RECORDS: "kernel records written",
    COPY_RECORDS: "copy records written",
    DROPPED: "records dropped, for want of a buffer or because it was asked for",
    BUFFERS_REQUESTED: "buffers that a tool gave",
    BUFFERS_COMPLETED: "buffers given back",
    PUSHES: "ids pushed",
    POPS: "ids popped",
    POPS_OF_NOTHING: "pops from an empty stack",
    FLUSHES: "calls of cuptiActivityFlushAll",
    SUBSCRIBED: "subscriptions that succeeded",
    UNSUBSCRIBED: "subscriptions that ended",
    MISUSES: "wrong uses that FAKECUPTI_STRICT=0 let pass",
}

/// The count by its name, in either case.
pub(crate) fn by_name(name: &str) -> Option<u64> {
    let found = ALL.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
    found.map(|(_, counter)| counter.get())
}

/// Writes all counts behind what the report has already.
pub(crate) extern "C" fn write_report() {
    let Some(path) = &knobs().report else {
        return;
    };
    let pid = std::process::id();
    let lines: Vec<String> = ALL
        .iter()
        .map(|(name, counter)| format!("{pid} {} {}\n", name.to_ascii_lowercase(), counter.get()))
        .collect();
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(lines.concat().as_bytes()));
    if let Err(error) = written {
        log::say(&format!("FAKECUPTI_REPORT={path}: {error}"));
    }
}
