//! The numbers of an archive's definitions in the merged one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use otf2::verbatim::ReferenceKind;
use otf2::{LocationGroupRef, LocationRef, SystemTreeNodeRef};

/// What another archive has in common with what is there already.
#[derive(Debug, Default)]
pub(in crate::merge) struct Shared {
    pub(in crate::merge) nodes: BTreeMap<SystemTreeNodeRef, SystemTreeNodeRef>,
    pub(in crate::merge) groups: BTreeMap<LocationGroupRef, LocationGroupRef>,
    /// The new id of every location.
    pub(in crate::merge) locations: BTreeMap<LocationRef, LocationRef>,
    /// Locations of which the new id is that of one that is there already.
    pub(in crate::merge) threads: BTreeSet<LocationRef>,
    /// What the names of new processes begin with; empty for nothing.
    pub(in crate::merge) prefix: String,
}

/// The new numbers of another archive's definitions.
#[derive(Debug, Default)]
pub(in crate::merge) struct Numbers {
    new: HashMap<(ReferenceKind, u64), u64>,
    /// One more than the highest old number.
    ends: HashMap<ReferenceKind, u64>,
    /// New numbers of what is there already.
    pub(in crate::merge) shared: HashSet<(ReferenceKind, u64)>,
}

impl Numbers {
    /// The new number of a definition.
    pub(in crate::merge) fn get(&self, kind: ReferenceKind, old: u64) -> Option<u64> {
        self.new.get(&(kind, old)).copied()
    }

    /// The new number of each old one from 0 on; of one that is not defined, the old one.
    pub(in crate::merge) fn all(&self, kind: ReferenceKind) -> Vec<u64> {
        let end = self.ends.get(&kind).copied().unwrap_or(0);
        (0..end).map(|old| self.get(kind, old).unwrap_or(old)).collect()
    }

    pub(in crate::merge) fn set(&mut self, kind: ReferenceKind, old: u64, new: u64) {
        self.new.insert((kind, old), new);
        let end = self.ends.entry(kind).or_default();
        *end = (*end).max(old + 1);
    }
}
