//! What was recorded of the job, where it was not all of it, and for whom.

use schema::Statements;
use serde::Serialize;

use crate::units::{count, plural, time};

#[derive(Debug, Default, Serialize)]
pub(crate) struct Recording {
    /// The end of what processes recorded.
    pub(crate) flight: Option<Flight>,
    /// A line each time a process's recording was switched.
    pub(crate) switches: Vec<String>,
    /// What proxies did for ranks of other processes.
    pub(crate) pxn: Option<Pxn>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Flight {
    /// How many processes have lost what was old.
    pub(crate) processes: u64,
    /// From when on all of them have everything, in ns since 1970.
    pub(crate) complete_from_ns: u64,
    pub(crate) lines: Vec<String>,
}

/// Transfers for ranks of other processes.
#[derive(Debug, Serialize)]
pub(crate) struct Pxn {
    pub(crate) transfers: u64,
    /// Those that count for the operation they were for.
    pub(crate) counted: u64,
    /// Those of which it is not known whose they were.
    pub(crate) unresolved: u64,
    /// A line for each rank and process.
    pub(crate) lines: Vec<String>,
}

impl Recording {
    pub(crate) fn of(said: &Statements) -> Self {
        let flight = said.flight_processes.0.map(|processes| Flight {
            processes,
            complete_from_ns: said.flight_complete_from.get(),
            lines: said.flight_list.shown(),
        });
        let pxn = said.pxn_transfers.0.map(|transfers| Pxn {
            transfers,
            counted: said.pxn_counted.get(),
            unresolved: said.pxn_unresolved.get(),
            lines: said.pxn_list.shown(),
        });
        Self { flight, switches: said.measurement_list.shown(), pxn }
    }

    /// A name and a line for each that is there; `start_ns` is when the archive begins, where that is known.
    pub(crate) fn facts(&self, start_ns: Option<u64>) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let Some(flight) = &self.flight {
            let from = start_ns.map(|start_ns| time(flight.complete_from_ns.saturating_sub(start_ns)));
            let from = from.map(|from| format!("; everything is there from {from} after the beginning on"));
            let processes = plural(flight.processes, "process", "processes");
            facts.push(("flight", format!("the end of {processes}{}", from.unwrap_or_default())));
        }
        if !self.switches.is_empty() {
            let number = self.switches.len() as u64;
            facts.push((
                "switched",
                format!(
                    "recording was switched {} (--json lists when, where and by what)",
                    plural(number, "time", "times")
                ),
            ));
        }
        if let Some(pxn) = &self.pxn {
            let counts = if pxn.counted < pxn.transfers {
                format!(
                    "; only {} of them count for the operations they were for (NCCL_OTF2_FINALIZE=offline gives all)",
                    count(pxn.counted)
                )
            } else {
                String::new()
            };
            facts.push((
                "PXN",
                format!("{} done for ranks of other processes{counts}", plural(pxn.transfers, "transfer", "transfers")),
            ));
        }
        facts
    }
}
