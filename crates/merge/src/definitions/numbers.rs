//! The numbers of an archive's definitions in the merged one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use anyhow::{Context as _, Result};
use otf2::verbatim::ReferenceKind;
use otf2::{LocationGroupRef, LocationRef, SystemTreeNodeRef};

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) nodes: BTreeMap<SystemTreeNodeRef, SystemTreeNodeRef>,
    pub(crate) groups: BTreeMap<LocationGroupRef, LocationGroupRef>,
    pub(crate) locations: BTreeMap<LocationRef, LocationRef>,
    /// Locations whose new id the merged archive already defines.
    pub(crate) threads: BTreeSet<LocationRef>,
    /// The prefix for names of new processes.
    pub(crate) prefix: String,
}

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    new: HashMap<(ReferenceKind, u64), u64>,
    /// One more than the highest old number.
    ends: HashMap<ReferenceKind, u64>,
    /// New numbers that the merged archive already defines.
    pub(crate) shared: HashSet<(ReferenceKind, u64)>,
}

impl Numbers {
    pub(crate) fn get(&self, kind: ReferenceKind, old: u64) -> Option<u64> {
        self.new.get(&(kind, old)).copied()
    }

    /// For [`otf2::verbatim::Definition::renumber`]: undefined references stay undefined.
    pub(crate) fn or_undefined(&self, kind: ReferenceKind, old: u64) -> u64 {
        self.get(kind, old).unwrap_or(u64::MAX)
    }

    pub(crate) fn location(&self, old: LocationRef) -> Result<LocationRef> {
        let new = self.get(ReferenceKind::Location, old.get());
        new.map(LocationRef::new).with_context(|| format!("location {} is not defined", old.get()))
    }

    /// The new number for each old one from 0; an undefined old number stays unchanged.
    pub(crate) fn all(&self, kind: ReferenceKind) -> Vec<u64> {
        let end = self.ends.get(&kind).copied().unwrap_or(0);
        (0..end).map(|old| self.get(kind, old).unwrap_or(old)).collect()
    }

    pub(crate) fn set(&mut self, kind: ReferenceKind, old: u64, new: u64) {
        self.new.insert((kind, old), new);
        let end = self.ends.entry(kind).or_default();
        *end = (*end).max(old + 1);
    }
}
