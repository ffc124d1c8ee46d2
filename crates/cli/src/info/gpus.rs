//! What the archive says of GPUs.

use std::collections::BTreeMap;

use schema::Statements;
use serde::Serialize;

use crate::units::{count, plural};

/// How work of GPUs was recorded, and what of it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Gpus {
    /// `cupti`, `events`, `off`: each way that a process ended with.
    pub(crate) backends: Vec<String>,
    /// What was decided and what went wrong.
    pub(crate) notices: Vec<String>,
    /// By name in lower case, see `docs/REFERENCE.md` §7.
    pub(crate) numbers: BTreeMap<String, u64>,
    /// A line for each clock.
    pub(crate) clocks: Vec<String>,
    /// Whether old records are gone, but not those who counted them.
    #[serde(skip)]
    pub(crate) is_flight: bool,
}

impl Gpus {
    pub(crate) fn of(said: &Statements) -> Self {
        let counts = said.gpu_counts.named().map(|(name, number)| (name.to_ascii_lowercase(), number));
        let others = [
            ("devices", said.gpu_devices.get()),
            ("clocks.residual_ns", said.gpu_clocks_residual_ns.get()),
            ("clocks.uncertainty_ns", said.gpu_clocks_uncertainty_ns.get()),
        ];
        let numbers = counts.chain(others.map(|(name, number)| (name.to_owned(), number)));
        Self {
            backends: said.gpu_backend.shown(),
            notices: said.gpu_notices.shown(),
            numbers: numbers.filter(|(_, number)| *number > 0).collect(),
            clocks: said.gpu_clocks_list.shown(),
            is_flight: said.flight_processes.get() > 0,
        }
    }

    /// In a line; nothing where there was no GPU to be asked.
    pub(crate) fn line(&self) -> Option<String> {
        if self.backends.is_empty() && self.numbers.is_empty() {
            return None;
        }
        let number = |name: &str| self.numbers.get(name).copied().unwrap_or(0);
        let mut facts = Vec::new();
        let mut fact = |some: u64, text: String| {
            if some > 0 {
                facts.push(text);
            }
        };
        let devices = number("devices");
        fact(devices, plural(devices, "device", "devices"));
        let launches = number("launches");
        let ran = launches.saturating_sub(number("captured"));
        let timed = number("launches_timed");
        // What was counted in a process that was killed is a second old.
        if self.is_flight || timed > ran {
            let timed = plural(timed, "launch", "launches");
            fact(launches, format!("{timed} timed"));
        } else {
            let of = plural(ran, "launch", "launches");
            fact(launches, format!("{} of {of} timed", count(timed)));
        }
        let joined = number("kernels_joined") + number("kernels_of_graphs");
        fact(joined, plural(joined, "kernel of NCCL's", "kernels of NCCL's"));
        for (name, one, many) in [
            ("kernels_of_graphs_unknown", "of a graph, operation unknown", "of graphs, operation unknown"),
            ("kernels_without_launch", "without its launch", "without their launches"),
            ("kernels_other", "other kernel", "other kernels"),
            ("copies_shown", "copy", "copies"),
            ("not_placed", "without a place in time", "without a place in time"),
        ] {
            fact(number(name), plural(number(name), one, many));
        }
        let backends =
            if self.backends.is_empty() { "no way is stated".to_owned() } else { self.backends.join(" and ") };
        facts.insert(0, backends);
        Some(facts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_missing() {
        assert_eq!(Gpus::default().line(), None);
        let numbers = [
            ("devices", 2),
            ("launches", 10),
            ("captured", 3),
            ("launches_timed", 6),
            ("kernels_joined", 6),
            ("kernels_of_graphs_unknown", 4),
        ];
        let numbers = numbers.map(|(name, number)| (name.to_owned(), number));
        let mut gpus = Gpus { backends: vec!["cupti".to_owned()], numbers: numbers.into(), ..Gpus::default() };
        assert_eq!(
            gpus.line().expect("there is something"),
            "cupti, 2 devices, 6 of 7 launches timed, 6 kernels of NCCL's, 4 of graphs, operation unknown"
        );
        let is_cut = |gpus: &Gpus, launches: &str| {
            let line = gpus.line().expect("there is something");
            line.contains(&format!("2 devices, {launches} timed, "))
        };
        gpus.numbers.insert("launches_timed".to_owned(), 8);
        assert!(is_cut(&gpus, "8 launches"), "{:?}", gpus.line());
        gpus.numbers.insert("launches_timed".to_owned(), 6);
        gpus.is_flight = true;
        assert!(is_cut(&gpus, "6 launches"), "{:?}", gpus.line());
    }
}
