//! An archive with its definitions, as `info` and `check` read it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use otf2::records::Location;
use otf2::{
    Archive, AttributeRef, AttributeValue, CommRef, Definitions, GroupType, LocationGroupType,
    LocationRef, RegionRef,
};

use crate::place;

/// An open archive.
pub(crate) struct Trace {
    /// Its anchor file.
    pub(crate) anchor: PathBuf,
    /// The archive.
    pub(crate) archive: Archive,
    /// Its global definitions.
    pub(crate) definitions: Definitions,
}

impl Trace {
    /// Opens the archive at a directory or anchor file.
    ///
    /// # Errors
    ///
    /// When there is none, or it is damaged.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let anchor = place::anchor(path)?;
        let archive = Archive::open(&anchor).context("cannot open the archive")?;
        let definitions = archive.definitions().context("cannot read the archive")?;
        Ok(Self {
            anchor,
            archive,
            definitions,
        })
    }

    /// The locations in the order of their ids.
    pub(crate) fn locations(&self) -> impl Iterator<Item = (LocationRef, &Location)> {
        let locations = self.definitions.locations.iter();
        locations.map(|(reference, location)| (*reference, location))
    }

    /// How many processes there are.
    pub(crate) fn processes(&self) -> usize {
        let groups = self.definitions.location_groups.values();
        groups
            .filter(|group| group.group_type == LocationGroupType::Process)
            .count()
    }

    /// How many events the definitions promise.
    pub(crate) fn events(&self) -> u64 {
        let locations = self.definitions.locations.values();
        locations.map(|location| location.number_of_events).sum()
    }

    /// The name of a location; its id when it has none.
    pub(crate) fn location_name(&self, reference: LocationRef) -> String {
        let location = self.definitions.locations.get(&reference);
        location
            .and_then(|location| self.definitions.string(location.name))
            .map_or_else(|| format!("location {}", reference.get()), str::to_owned)
    }

    /// The locations of which operations that overlap are on siblings, as the writer of this project does it.
    pub(crate) fn with_siblings(&self) -> BTreeSet<LocationRef> {
        let names = || {
            let locations = self.definitions.locations.iter();
            locations.filter_map(|(reference, location)| {
                Some((*reference, self.definitions.string(location.name)?))
            })
        };
        if !is_nccl(&self.archive) {
            return BTreeSet::new();
        }
        let siblings: BTreeSet<&str> = names()
            .filter_map(|(_, name)| name.strip_suffix(" #2"))
            .collect();
        let with = names().filter(|(_, name)| siblings.contains(name));
        with.map(|(reference, _)| reference).collect()
    }

    /// The name of a region; its id when it has none.
    pub(crate) fn region_name(&self, reference: RegionRef) -> String {
        let region = self.definitions.regions.get(&reference);
        region
            .and_then(|region| self.definitions.string(region.name))
            .map_or_else(|| format!("region {}", reference.get()), str::to_owned)
    }

    /// The name of a communicator; its id when it has none.
    pub(crate) fn comm_name(&self, reference: CommRef) -> String {
        let comm = self.definitions.comms.get(&reference);
        comm.and_then(|comm| self.definitions.string(comm.name))
            .map_or_else(
                || format!("communicator {}", reference.get()),
                str::to_owned,
            )
    }

    /// The attribute of a name.
    pub(crate) fn attribute(&self, name: &str) -> Option<AttributeRef> {
        let mut attributes = self.definitions.attributes.iter();
        let found =
            attributes.find(|(_, attribute)| self.definitions.string(attribute.name) == Some(name));
        found.map(|(reference, _)| *reference)
    }

    /// Whether the definitions promise events of a location.
    pub(crate) fn has_events(&self, reference: LocationRef) -> bool {
        let location = self.definitions.locations.get(&reference);
        location.is_some_and(|location| location.number_of_events > 0)
    }

    /// The text of an attribute's value.
    pub(crate) fn text(&self, value: AttributeValue) -> Option<&str> {
        match value {
            AttributeValue::String(string) => self.definitions.string(string),
            _ => None,
        }
    }
}

/// Whether the writer of this project made an archive: it then has the writer's statements.
pub(crate) fn is_nccl(archive: &Archive) -> bool {
    let mut properties = archive.properties().iter();
    properties.any(|(name, _)| name.starts_with("NCCL::"))
}

/// Whether an archive is Score-P's with one of this project's merged into it.
pub(crate) fn is_merged(archive: &Archive) -> bool {
    archive.property(MERGED).is_some()
}

/// The property of a merged archive with the creators of what NCCL's archive was merged into.
pub(crate) const MERGED: &str = "NCCL::MERGED";

/// The locations of a communicator in the order of its ranks.
pub(crate) fn members(trace: &Trace, comm: CommRef) -> Vec<LocationRef> {
    let definitions = &trace.definitions;
    let group = definitions
        .comms
        .get(&comm)
        .and_then(|comm| definitions.groups.get(&comm.group));
    let Some(group) = group else {
        return Vec::new();
    };
    let all = definitions
        .groups
        .values()
        .find(|all| all.group_type == GroupType::CommLocations && all.paradigm == group.paradigm);
    let Some(all) = all else {
        return Vec::new();
    };
    let indices = group.members.iter();
    let locations = indices.filter_map(|index| all.members.get(usize::try_from(*index).ok()?));
    locations.map(|id| LocationRef::new(*id)).collect()
}
