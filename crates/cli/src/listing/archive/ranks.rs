//! Finds the communicator and rank of a location.

use analysis::Trace;
use otf2::{CommRef, LocationRef};

use crate::journals::Filter;

/// Whether a location is wanted. Threads have no rank.
pub(super) fn wanted(trace: &Trace, location: LocationRef, filter: &Filter) -> bool {
    match trace.rank_of(location) {
        Some((comm, rank)) => wants_comm(trace, comm, filter) && filter.wants_rank(Some(rank.into())),
        None => filter.wants_comm("", None) && filter.wants_rank(None),
    }
}

pub(super) fn wants_comm(trace: &Trace, comm: CommRef, filter: &Filter) -> bool {
    let name = trace.comm_name(comm);
    let (base, id) = identity(&name);
    filter.wants_comm(&name, id) || filter.wants_comm(base, id)
}

/// The rank, and the communicator if there are several; empty if the location has no rank.
pub(super) fn text(trace: &Trace, location: LocationRef) -> String {
    let Some((comm, rank)) = trace.rank_of(location) else { return String::new() };
    let ranks = trace.members(comm).len();
    match trace.definitions.comms.len() {
        0 | 1 => format!("{rank}/{ranks}"),
        _ => format!("{} {rank}/{ranks}", trace.comm_name(comm)),
    }
}

/// The name without its repetition number, and the id if the name is an id.
fn identity(name: &str) -> (&str, Option<u64>) {
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    let base = match name.rsplit_once(" #") {
        Some((base, number)) if is_number(number) => base,
        _ => name,
    };
    let digits = base.strip_prefix("0x");
    (base, digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_name_are_ids() {
        assert_eq!(identity("0x00ff #2"), ("0x00ff", Some(255)));
        assert_eq!(identity("train #2"), ("train", None));
        assert_eq!(identity("train #two"), ("train #two", None));
    }
}
