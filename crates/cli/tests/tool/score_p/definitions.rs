//! The definitions that Score-P would write.

use otf2::verbatim::Definition;
use otf2::{ArchiveWriter, AttributeValue, LocationRef, RegionRef, StringRef, SystemTreeNodeRef};

use super::ScoreP;
use crate::tool::made_up::{Definitions, HOSTS, RANKS, SECOND, number};

impl ScoreP {
    pub(super) fn define(&self, archive: &mut ArchiveWriter, events: &[(LocationRef, u64)]) {
        let mut to = Definitions::default();
        assert_eq!(to.text("train"), StringRef::new(0));
        self.hosts_and_locations(&mut to, events);
        for (number, (name, role)) in (0..).zip([("main", 1), ("MPI_Allreduce", 25), ("work", 1)]) {
            let paradigm = if role == 25 { 4 } else { 1 };
            to.region(RegionRef::new(number), [name, name], Some("MPI"), role, paradigm);
        }
        if self.only.is_none() {
            mpi(&mut to);
        }
        to.attribute(0, "ProcessId", Some("Process identifier"), 4);
        let own = |at| number(self.clock().timer(self.timer, at));
        to.write(archive, [self.resolution(), own(SECOND), own(6 * SECOND) - own(SECOND) + 1, u64::MAX]);
    }

    fn hosts_and_locations(&self, to: &mut Definitions, events: &[(LocationRef, u64)]) {
        to.node(0, "Linux", "machine", None);
        for (number, host) in (1..).zip(HOSTS) {
            // With the domain, which NCCL's archive lacks.
            to.node(number, &format!("{}.cluster.example", host.name), "node", Some(0));
            to.push(Definition::SystemTreeNodeDomain { of: SystemTreeNodeRef::new(number), domain: 1 });
        }
        for group in 0..if self.only.is_none() { RANKS } else { 1 } {
            let rank = self.only.unwrap_or(group);
            let name = self.only.map_or_else(|| format!("MPI Rank {rank}"), |_| "Process".to_owned());
            let node = if rank == RANKS - 1 { 2 } else { 1 };
            to.location_group(u32::try_from(group).expect("few"), &name, 1, node, None);
        }
        for (location, events) in events {
            let name = if location.get() >> 32 == 0 { "Master thread" } else { "Pthread thread 1" };
            to.location(*location, name, 1, *events, u32::try_from(location.get() & 0xff).expect("few"));
        }
    }
}

fn mpi(to: &mut Definitions) {
    let (name, communicators) = (to.text("MPI"), AttributeValue::String(to.text("Comm ${id}")));
    to.push(Definition::Paradigm { paradigm: 4, name, class: 0 });
    to.push(Definition::ParadigmProperty { paradigm: 4, property: 0, value: communicators });
    // In the order of ranks: Score-P lists only master threads.
    to.group(0, "", 4, vec![0, 1, 2]);
    to.group(1, "", 5, vec![0, 1, 2]);
    to.group(2, "", 6, Vec::new());
    to.comm(0, "MPI_COMM_WORLD", 1);
    to.comm(1, "MPI_COMM_SELF", 2);
}
