//! The members of communicators, and what the archive says of those that are missing.

use std::collections::BTreeMap;

use otf2::{CommRef, LocationRef};

use crate::archive::{Trace, is_nccl, members};
use crate::completeness::Completeness;

use super::collectives::Collectives;
use super::findings::Findings;
use super::rules::Rule;

/// How the writer ends the name of a rank that nobody recorded.
const NOT_RECORDED: &str = "(not recorded)";

/// Who is in which communicator.
#[derive(Default)]
pub(crate) struct Members {
    by_comm: BTreeMap<CommRef, Vec<LocationRef>>,
    ranks: BTreeMap<(LocationRef, CommRef), u32>,
}

impl Members {
    /// Those of an archive.
    pub(crate) fn of_all(trace: &Trace) -> Self {
        let mut found = Self::default();
        for comm in trace.definitions.comms.keys() {
            let locations = members(trace, *comm);
            for (rank, location) in (0..).zip(&locations) {
                found.ranks.entry((*location, *comm)).or_insert(rank);
            }
            found.by_comm.insert(*comm, locations);
        }
        found
    }

    /// The locations of a communicator in the order of its ranks.
    pub(crate) fn of(&self, comm: CommRef) -> &[LocationRef] {
        self.by_comm.get(&comm).map_or(&[], Vec::as_slice)
    }

    /// The rank of a location.
    pub(crate) fn rank(&self, location: LocationRef, comm: CommRef) -> Option<u32> {
        self.ranks.get(&(location, comm)).copied()
    }

    /// Who is missing, and whether the archive counts them.
    pub(crate) fn end(
        &self,
        trace: &Trace,
        account: &Completeness,
        collectives: &Collectives,
        findings: &mut Findings,
    ) {
        let (mut missing, mut unmatched) = (0_u64, 0_u64);
        for (comm, locations) in &self.by_comm {
            let ranks = || (0..).zip(locations);
            let (not_recorded, recorded): (Vec<_>, Vec<_>) =
                ranks().partition(|(_, location): &(u32, _)| {
                    trace.location_name(**location).ends_with(NOT_RECORDED)
                });
            missing += not_recorded.len() as u64;
            let counts = || {
                recorded
                    .iter()
                    .map(|(rank, _)| collectives.count(*comm, *rank))
            };
            unmatched += counts().max().unwrap_or(0) - counts().min().unwrap_or(0);
            let empty: Vec<String> = ranks()
                .filter(|(_, location)| !trace.has_events(**location))
                .map(|(rank, _): (u32, _)| rank.to_string())
                .collect();
            if !empty.is_empty() && collectives.has_some(*comm) {
                let name = trace.comm_name(*comm);
                let message = format!("{name}: nothing is recorded of rank {}", empty.join(", "));
                findings.general(Rule::RankMissing, message);
            }
        }
        if !is_nccl(&trace.archive) {
            return;
        }
        for (said, there, what) in [
            (account.ranks_missing, missing, "ranks that nobody recorded"),
            (
                account.collectives_unmatched,
                unmatched,
                "collectives that some recorded ranks do not have",
            ),
        ] {
            if said != there {
                let message = format!("the archive counts {said} {what}, there are {there}");
                findings.general(Rule::RankStatement, message);
            }
        }
    }
}
