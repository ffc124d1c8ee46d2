//! The lists of definitions, and their entries.

use std::collections::BTreeMap;

use otf2::records::{
    Attribute, Comm, Group, Location, LocationGroup, MetricClass, MetricMember, ParadigmRecord, Region, RmaWin,
    SystemTreeNode,
};
use otf2::{AttributeValue, Paradigm, StringRef};

use crate::archive::clock_statements::Property;
use crate::archive::communicators::Communicators;
use crate::archive::definitions::topology::Topology;
use crate::archive::merged::Strings;
use crate::archive::origins::Origins;
use crate::archive::processes::Process;
use crate::part::manifest::{AttributeDefinition, RegionDefinition};
use journal::part::environment::ArchiveOptions;
use process_model::emit::details::attribute_value;

/// The definitions of an archive; numbers are indices into the lists.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub(crate) strings: Strings,
    /// System tree: the machine, then its hosts, then their GPUs.
    pub(crate) nodes: Vec<SystemTreeNode>,
    pub(crate) location_groups: Vec<LocationGroup>,
    pub(crate) locations: BTreeMap<u64, Location>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) regions: Vec<Region>,
    /// Groups: communicating locations, communicators, regions.
    pub(crate) groups: Vec<Group>,
    pub(crate) comms: Vec<Comm>,
    /// Windows, by number of the communicator; empty if no steps are shown.
    pub(crate) windows: Vec<RmaWin>,
    pub(crate) metrics: Vec<(MetricMember, MetricClass)>,
    pub(crate) paradigms: Vec<(Paradigm, ParadigmRecord)>,
}

pub(crate) struct Sources<'a> {
    pub(crate) processes: &'a [Process],
    pub(crate) communicators: &'a Communicators,
    pub(crate) origins: &'a Origins<'a>,
    pub(crate) topology: &'a Topology<'a>,
    pub(crate) attributes: &'a [AttributeDefinition],
    pub(crate) regions: &'a [RegionDefinition],
    pub(crate) options: ArchiveOptions,
}

impl Definitions {
    pub(super) fn properties(&mut self, stated: Vec<Property>) -> Vec<(StringRef, AttributeValue)> {
        let properties = stated.into_iter().map(|(name, value)| {
            let value = attribute_value(value.map(|text| self.string(&text)));
            (self.string(name), value)
        });
        properties.collect()
    }

    pub(super) fn string(&mut self, text: &str) -> StringRef {
        StringRef::new(self.strings.number(text))
    }
}
