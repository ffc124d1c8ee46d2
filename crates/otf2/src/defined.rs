//! Which references are defined: what makes a wrong definition an error here, and not a puzzle for a reader.

use std::collections::{HashMap, HashSet};

use crate::error::{Result, refused};
use crate::records::Property;
use crate::{
    AttributeRef, AttributeValue, CommRef, GroupRef, GroupType, LocationGroupRef, LocationRef,
    MetricMemberRef, MetricRef, Paradigm, ParameterRef, RegionRef, RmaWinRef, StringRef,
    SystemTreeNodeRef,
};

/// The definitions written so far. References of a kind are dense: 0, 1, 2 and so on; only those of locations
/// are free.
#[derive(Default)]
pub(crate) struct Defined {
    strings: u32,
    attributes: u32,
    system_tree_nodes: u32,
    location_groups: u32,
    locations: HashSet<LocationRef>,
    regions: u32,
    groups: Vec<KnownGroup>,
    comms: u32,
    rma_wins: u32,
    metric_members: u32,
    metrics: u32,
    parameters: u32,
    paradigms: HashSet<Paradigm>,
    /// How many members the paradigm's group of communicating locations has.
    comm_locations: HashMap<Paradigm, u64>,
    clock: bool,
}

#[derive(Clone, Copy)]
struct KnownGroup {
    group_type: GroupType,
}

macro_rules! dense {
    ($($next:ident, $check:ident: $reference:ident in $field:ident, $kind:literal;)*) => {$(
        /// Takes the next reference of its kind.
        pub(crate) fn $next(&mut self, reference: $reference) -> Result<()> {
            if reference.get() != self.$field || !reference.is_defined() {
                let reason = format!("references are given in order, the next one is {}", self.$field);
                return Err(refused(format!("define {reference:?}"), reason));
            }
            self.$field += 1;
            Ok(())
        }

        /// Refuses a reference that is not defined yet.
        pub(crate) fn $check(&self, by: &str, reference: $reference) -> Result<()> {
            if reference.get() < self.$field {
                return Ok(());
            }
            Err(refused(by, format!(concat!("the ", $kind, " {:?} is not defined"), reference)))
        }
    )*};
}

impl Defined {
    dense! {
        next_string, string: StringRef in strings, "string";
        next_attribute, attribute: AttributeRef in attributes, "attribute";
        next_system_tree_node, system_tree_node: SystemTreeNodeRef in system_tree_nodes, "system tree node";
        next_location_group, location_group: LocationGroupRef in location_groups, "location group";
        next_region, region: RegionRef in regions, "region";
        next_comm, comm: CommRef in comms, "communicator";
        next_rma_win, rma_win: RmaWinRef in rma_wins, "window";
        next_metric_member, metric_member: MetricMemberRef in metric_members, "metric member";
        next_metric, metric: MetricRef in metrics, "metric class";
        next_parameter, parameter: ParameterRef in parameters, "parameter";
    }

    /// A string that may be left out.
    pub(crate) fn optional_string(&self, by: &str, string: StringRef) -> Result<()> {
        if string.is_defined() {
            self.string(by, string)
        } else {
            Ok(())
        }
    }

    pub(crate) fn next_location(&mut self, location: LocationRef) -> Result<()> {
        let by = || format!("define {location:?}");
        if !location.is_defined() {
            return Err(refused(by(), "a location has a reference"));
        }
        if !self.locations.insert(location) {
            return Err(refused(by(), "it is defined already"));
        }
        Ok(())
    }

    pub(crate) fn location(&self, by: &str, location: LocationRef) -> Result<()> {
        if self.locations.contains(&location) {
            return Ok(());
        }
        Err(refused(
            by,
            format!("the location {location:?} is not defined"),
        ))
    }

    pub(crate) fn locations(&self) -> impl Iterator<Item = LocationRef> {
        self.locations.iter().copied()
    }

    pub(crate) fn group(&self, by: &str, group: GroupRef) -> Result<GroupType> {
        let known = usize::try_from(group.get())
            .ok()
            .and_then(|index| self.groups.get(index));
        let known =
            known.ok_or_else(|| refused(by, format!("the group {group:?} is not defined")))?;
        Ok(known.group_type)
    }

    pub(crate) fn next_group(
        &mut self,
        group: GroupRef,
        group_type: GroupType,
        paradigm: Paradigm,
        members: &[u64],
    ) -> Result<()> {
        let by = format!("define {group:?}");
        let next = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        if group.get() != next || !group.is_defined() {
            return Err(refused(
                by,
                format!("references are given in order, the next one is {next}"),
            ));
        }
        match group_type {
            GroupType::Locations | GroupType::CommLocations => {
                let mut seen = HashSet::with_capacity(members.len());
                for member in members {
                    self.location(&by, LocationRef::new(*member))?;
                    if !seen.insert(*member) {
                        return Err(refused(by, format!("the location {member} is in it twice")));
                    }
                }
            }
            GroupType::Regions => self.indices(&by, members, u64::from(self.regions), "regions")?,
            GroupType::Metric => self.indices(&by, members, u64::from(self.metrics), "metrics")?,
            GroupType::CommGroup => {
                let Some(limit) = self.comm_locations.get(&paradigm) else {
                    let reason =
                        format!("{paradigm:?} has no group of communicating locations yet");
                    return Err(refused(by, reason));
                };
                self.indices(&by, members, *limit, "communicating locations")?;
            }
            GroupType::CommSelf => self.indices(&by, members, 0, "members: it has none")?,
            GroupType::Unspecified | GroupType::Unknown(_) => {
                return Err(refused(by, "a group has a type of OTF2 3.0"));
            }
        }
        if group_type == GroupType::CommLocations {
            if self.comm_locations.contains_key(&paradigm) {
                let reason = format!("{paradigm:?} has a group of communicating locations already");
                return Err(refused(by, reason));
            }
            let members = u64::try_from(members.len()).unwrap_or(u64::MAX);
            self.comm_locations.insert(paradigm, members);
        }
        self.groups.push(KnownGroup { group_type });
        Ok(())
    }

    fn indices(&self, by: &str, members: &[u64], limit: u64, of: &str) -> Result<()> {
        match members.iter().find(|member| **member >= limit) {
            None => Ok(()),
            Some(member) => Err(refused(
                by,
                format!("member {member} is none of the {limit} {of}"),
            )),
        }
    }

    pub(crate) fn next_paradigm(&mut self, paradigm: Paradigm) -> Result<()> {
        if self.paradigms.insert(paradigm) {
            return Ok(());
        }
        Err(refused(
            format!("define {paradigm:?}"),
            "the paradigm is defined already",
        ))
    }

    pub(crate) fn clock(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.clock, true) {
            return Err(refused(
                "define the clock properties",
                "they are defined already",
            ));
        }
        Ok(())
    }

    pub(crate) fn has_clock(&self) -> bool {
        self.clock
    }

    /// Properties have names of their own, and values that refer to what is defined.
    pub(crate) fn properties(&self, by: &str, properties: &[Property]) -> Result<()> {
        for (index, (name, value)) in properties.iter().enumerate() {
            self.string(by, *name)?;
            if properties
                .iter()
                .take(index)
                .any(|(other, _)| other == name)
            {
                return Err(refused(
                    by,
                    format!("the property named {name:?} occurs twice"),
                ));
            }
            self.value(by, *value)?;
        }
        Ok(())
    }

    pub(crate) fn value(&self, by: &str, value: AttributeValue) -> Result<()> {
        match value {
            AttributeValue::String(string) => self.string(by, string),
            AttributeValue::Attribute(attribute) => self.attribute(by, attribute),
            AttributeValue::Location(location) => self.location(by, location),
            AttributeValue::Region(region) => self.region(by, region),
            AttributeValue::Group(group) => self.group(by, group).map(drop),
            AttributeValue::Metric(metric) => self.metric(by, metric),
            AttributeValue::Comm(comm) => self.comm(by, comm),
            AttributeValue::Parameter(parameter) => self.parameter(by, parameter),
            AttributeValue::RmaWin(rma_win) => self.rma_win(by, rma_win),
            AttributeValue::LocationGroup(group) => self.location_group(by, group),
            AttributeValue::Other { attribute_type, .. } => Err(refused(
                by,
                format!("a property cannot have the type {attribute_type:?}"),
            )),
            _ => Ok(()),
        }
    }
}
