//! What was recorded of the job, where it was not all of it, and for whom.

use analysis::statement;
use otf2::Archive;
use serde::Serialize;

use crate::units::{count, plural, time};

/// What the archive says.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Recording {
    /// The end of what processes recorded.
    pub(crate) flight: Option<Flight>,
    /// A line each time a process's recording was switched.
    pub(crate) switches: Vec<String>,
    /// What proxies did for ranks of other processes.
    pub(crate) pxn: Option<Pxn>,
}

/// A flight recording.
#[derive(Debug, Serialize)]
pub(crate) struct Flight {
    /// How many processes have lost what was old.
    pub(crate) processes: u64,
    /// From when on all of them have everything, in ns since 1970.
    pub(crate) complete_from_ns: u64,
    /// A line for each.
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
    /// Reads the properties.
    pub(crate) fn of(archive: &Archive) -> Self {
        let list = |name| statement::lines(archive, name);
        let number = |name| statement::number(archive, name);
        let flight = number("NCCL::FLIGHT::PROCESSES").map(|processes| Flight {
            processes,
            complete_from_ns: number("NCCL::FLIGHT::COMPLETE_FROM").unwrap_or(0),
            lines: list("NCCL::FLIGHT::LIST"),
        });
        let pxn = number("NCCL::PXN::TRANSFERS").map(|transfers| Pxn {
            transfers,
            counted: number("NCCL::PXN::COUNTED").unwrap_or(0),
            unresolved: number("NCCL::PXN::UNRESOLVED").unwrap_or(0),
            lines: list("NCCL::PXN::LIST"),
        });
        Self { flight, switches: list("NCCL::MEASUREMENT::LIST"), pxn }
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
