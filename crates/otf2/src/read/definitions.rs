//! The global definitions of an archive, as owned data.

use std::collections::BTreeMap;
use std::path::Path;
use std::ptr;

use otf2_sys as sys;

use super::definition_callbacks::DefinitionCallbacks;
use super::reader::Reader;
use crate::error::{self, Result, check};
use crate::records::{
    Attribute, ClockProperties, Comm, Group, Location, LocationGroup, MetricClass, MetricMember,
    ParadigmRecord, Parameter, Region, RmaWin, SystemTreeNode,
};
use crate::{
    AttributeRef, CommRef, GroupRef, LocationGroupRef, LocationRef, MetricMemberRef, MetricRef,
    Paradigm, ParameterRef, RegionRef, RmaWinRef, StringRef, SystemTreeNodeRef,
};

/// All global definitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    /// The clock; every archive has one.
    pub clock: Option<ClockProperties>,
    /// Strings; bytes that are not UTF-8 are replaced.
    pub strings: BTreeMap<StringRef, String>,
    /// Attributes.
    pub attributes: BTreeMap<AttributeRef, Attribute>,
    /// The system tree, with its properties and domains.
    pub system_tree_nodes: BTreeMap<SystemTreeNodeRef, SystemTreeNode>,
    /// Location groups, with their properties.
    pub location_groups: BTreeMap<LocationGroupRef, LocationGroup>,
    /// Locations, with their properties.
    pub locations: BTreeMap<LocationRef, Location>,
    /// Regions.
    pub regions: BTreeMap<RegionRef, Region>,
    /// Groups.
    pub groups: BTreeMap<GroupRef, Group>,
    /// Communicators.
    pub comms: BTreeMap<CommRef, Comm>,
    /// Windows.
    pub rma_wins: BTreeMap<RmaWinRef, RmaWin>,
    /// Metric members.
    pub metric_members: BTreeMap<MetricMemberRef, MetricMember>,
    /// Metric classes.
    pub metric_classes: BTreeMap<MetricRef, MetricClass>,
    /// Parameters.
    pub parameters: BTreeMap<ParameterRef, Parameter>,
    /// What is said about paradigms.
    pub paradigms: BTreeMap<Paradigm, ParadigmRecord>,
    /// How many definitions were read, of all kinds.
    pub records: u64,
    /// How many definitions of every other kind there are, by OTF2's name; "Unknown" are those that this
    /// libotf2 does not know.
    pub others: BTreeMap<&'static str, u64>,
}

impl Definitions {
    /// The text of a string; `None` when it is UNDEFINED or not there.
    #[must_use]
    pub fn string(&self, string: StringRef) -> Option<&str> {
        self.strings.get(&string).map(String::as_str)
    }
}

pub(super) fn read(anchor: &Path) -> Result<Definitions> {
    let mut found = Definitions::default();
    // SAFETY: these callbacks take a `Definitions`.
    found.records = unsafe { read_into(anchor, &DefinitionCallbacks::new()?, &mut found) }?;
    Ok(found)
}

/// What is being done, for messages.
pub(crate) fn operation(anchor: &Path) -> String {
    let file = anchor.with_extension("def");
    format!("read the definitions {}", file.display())
}

/// Hands all global definitions to `callbacks`, with `found` as their user data; how many there are.
///
/// # Safety
/// The callbacks take a pointer to a `T` as user data.
pub(crate) unsafe fn read_into<T>(
    anchor: &Path,
    callbacks: &DefinitionCallbacks,
    found: &mut T,
) -> Result<u64> {
    let mut reader = Reader::open(anchor)?;
    let operation = || operation(anchor);
    let pointer = reader.as_ptr();
    error::forget();
    // SAFETY: the reader is open.
    let definitions = unsafe { sys::OTF2_Reader_GetGlobalDefReader(pointer) };
    if definitions.is_null() {
        return Err(error::null(operation()));
    }
    let user_data = ptr::from_mut(found);
    // SAFETY: both readers are open, libotf2 copies the table, which the caller vouches takes a `T`, and `found` is used
    // through this pointer alone until the reading is done.
    let code = unsafe {
        sys::OTF2_Reader_RegisterGlobalDefCallbacks(
            pointer,
            definitions,
            callbacks.as_ptr(),
            user_data.cast(),
        )
    };
    check(code, operation)?;
    let mut count = 0;
    // SAFETY: both readers are open; the callbacks' user data is alive.
    let code =
        unsafe { sys::OTF2_Reader_ReadAllGlobalDefinitions(pointer, definitions, &raw mut count) };
    check(code, operation)?;
    Ok(count)
}
