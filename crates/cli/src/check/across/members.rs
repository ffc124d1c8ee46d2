//! The members of communicators, and what the archive says of those that are missing.

use nccl_events::archive::LocationKind;
use otf2::LocationRef;

use super::collectives::Collectives;
use crate::archive::is_nccl;
use crate::check::findings::Findings;
use crate::check::rules::Rule;
use crate::check::subject::Subject;

/// Who is missing, and whether the archive counts them.
pub(super) fn check(subject: Subject<'_>, collectives: &Collectives, findings: &mut Findings) {
    let Subject { trace, said } = subject;
    let is_recorded = |location: LocationRef| trace.location_kind(location) != Some(LocationKind::NotRecorded);
    let (mut missing, mut unmatched) = (0_u64, 0_u64);
    for comm in trace.definitions.comms.keys().copied() {
        let ranks = || (0_u32..).zip(trace.members(comm).iter().copied());
        missing += ranks().filter(|(_, it)| !is_recorded(*it)).count() as u64;
        let recorded = || ranks().filter(|(_, it)| is_recorded(*it));
        let counts = || recorded().map(|(rank, _)| collectives.count(comm, rank));
        unmatched += counts().max().unwrap_or(0) - counts().min().unwrap_or(0);
        let empty = ranks().filter(|(_, location)| !trace.has_events(*location));
        let empty: Vec<String> = empty.map(|(rank, _)| rank.to_string()).collect();
        if !empty.is_empty() && collectives.has_some(comm) {
            let name = trace.comm_name(comm);
            let message = format!("{name}: nothing is recorded of rank {}", empty.join(", "));
            findings.general(Rule::RankMissing, message);
        }
    }
    if !is_nccl(&trace.archive) {
        return;
    }
    for (said, there, what) in [
        (said.ranks_missing.get(), missing, "ranks that nobody recorded"),
        (said.collectives_unmatched.get(), unmatched, "collectives that some recorded ranks do not have"),
    ] {
        if said != there {
            let message = format!("the archive counts {said} {what}, there are {there}");
            findings.general(Rule::RankStatement, message);
        }
    }
}
