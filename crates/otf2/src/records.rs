//! The definitions of an archive as plain data ([`Definitions`]), for writers and from readers; and event files as
//! records ([`EventRecords`]): merges the event files of two writers and decodes records only as far as needed.

use std::collections::BTreeMap;
use std::path::Path;

use crate::definition::Definition;
use crate::error::{Error, Result, io, refused};
use crate::event_chunks::{EventRecord, Reader, Writer};
use crate::vocabulary::{
    AttributeRef, AttributeType, AttributeValue, CommRef, GroupRef, GroupType, LocationGroupRef, LocationGroupType,
    LocationRef, LocationType, MetricBase, MetricMemberRef, MetricMode, MetricOccurrence, MetricRef, MetricType,
    Paradigm, ParadigmClass, ParadigmProperty, ParameterRef, ParameterType, RecorderKind, RegionRef, RegionRole,
    RmaWinRef, StringRef, SystemTreeDomain, SystemTreeNodeRef,
};

pub use crate::vocabulary::RegionFlags;

/// An event file in memory, as its records.
pub struct EventRecords {
    bytes: Vec<u8>,
    records: Vec<EventRecord>,
}

impl EventRecords {
    /// Reads an event file with chunks of this size.
    pub fn read(path: &Path, chunk_bytes: u64) -> Result<Self> {
        let bytes = regular_files::read(path, u64::MAX).map_err(|source| io("read the event file", path, source))?;
        match Reader::new(&bytes).records(chunk_bytes) {
            Ok(records) => Ok(Self { bytes, records }),
            Err(reason) => Err(Error::Damaged { path: path.to_owned(), reason }),
        }
    }

    /// The events in file order.
    pub fn as_slice(&self) -> &[EventRecord] {
        &self.records
    }

    /// Merges these and other events by time, at equal times the others first: true where one of the others is next.
    pub fn by_time(&self, others: &Self) -> Vec<bool> {
        let mut others_left = others.records.iter().peekable();
        let mut order = Vec::with_capacity(self.records.len() + others.records.len());
        for record in &self.records {
            while others_left.next_if(|other| other.time <= record.time).is_some() {
                order.push(true);
            }
            order.push(false);
        }
        order.extend(others_left.map(|_| true));
        order
    }

    /// Writes these and other events into one file with chunks of this size, in an order returned by
    /// [`EventRecords::by_time`].
    pub fn write_with(&self, others: &Self, order: &[bool], path: &Path, chunk_bytes: u64) -> Result<()> {
        let mut to = Writer::create(path, chunk_bytes)?;
        let (mut own_left, mut others_left) = (self.records.iter(), others.records.iter());
        for is_other in order {
            let (from, record) = match is_other {
                true => (others, others_left.next()),
                false => (self, own_left.next()),
            };
            let bytes = record.and_then(|record| Some((record.time, from.bytes.get(record.at.clone())?)));
            let Some((time, bytes)) = bytes else {
                return Err(refused(format!("write {}", path.display()), "the order has more events than there are"));
            };
            to.push(time, bytes)?;
        }
        to.finish()
    }
}

/// A named property of a definition.
pub type Property = (StringRef, AttributeValue);

/// The clock of all timestamps of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockProperties {
    /// Ticks per second: 1 000 000 000 if timestamps are nanoseconds.
    pub timer_resolution: u64,
    /// A timestamp not later than the first event, in ticks.
    pub global_offset: u64,
    /// Ticks from `global_offset` to a timestamp not earlier than the last event.
    pub trace_length: u64,
    /// The wall clock at `global_offset`, in nanoseconds since 1970; `u64::MAX` if unknown.
    pub realtime_timestamp: u64,
}

/// A group of locations.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields have the names of OTF2's definitions")]
pub struct LocationGroup {
    pub name: StringRef,
    pub group_type: LocationGroupType,
    pub system_tree_parent: SystemTreeNodeRef,
    /// The process that drives this accelerator, or UNDEFINED.
    pub creator: LocationGroupRef,
    pub properties: Vec<Property>,
}

/// A paradigm that an archive uses.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields have the names of OTF2's definitions")]
pub struct ParadigmRecord {
    pub name: StringRef,
    pub class: ParadigmClass,
    pub properties: Vec<(ParadigmProperty, AttributeValue)>,
}

/// Records with the fields of the [`Definition`] of the same name. Lists after `;` collect other definitions.
macro_rules! records {
    ($($(#[$of:meta])* $kind:ident($own:ty) in $map:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty,)*
        $(; $($(#[$list_doc:meta])* $list:ident: $list_type:ty,)*)?
    })*) => {
        $(
            $(#[$of])*
            #[expect(missing_docs, reason = "fields have the names of OTF2's definitions")]
            pub struct $kind {
                $($(#[$doc])* pub $field: $type,)*
                $($($(#[$list_doc])* pub $list: $list_type,)*)?
            }

            impl $kind {
                pub(crate) fn definition(&self, this: $own) -> Definition {
                    Definition::$kind { this, $($field: self.$field.clone().into(),)* }
                }
            }
        )*

        impl Definitions {
            /// Stores a definition that has a record of its own; returns any other definition.
            pub(crate) fn add_record(&mut self, definition: Definition) -> Option<Definition> {
                match definition {
                    $(Definition::$kind { this, $($field,)* } => {
                        let record = $kind { $($field: $field.into(),)* $($($list: Vec::new(),)*)? };
                        self.$map.insert(this, record);
                    })*
                    other => return Some(other),
                }
                None
            }
        }
    };
}

records! {
    /// An attribute that events may carry.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Attribute(AttributeRef) in attributes {
        name: StringRef,
        description: StringRef,
        attribute_type: AttributeType,
    }

    /// A location.
    #[derive(Clone, Debug, PartialEq)]
    Location(LocationRef) in locations {
        name: StringRef,
        location_type: LocationType,
        /// Number of events in the location's event file.
        number_of_events: u64,
        group: LocationGroupRef,
        ;
        properties: Vec<Property>,
    }

    /// A node of the system tree.
    #[derive(Clone, Debug, Default, PartialEq)]
    SystemTreeNode(SystemTreeNodeRef) in system_tree_nodes {
        name: StringRef,
        /// The kind of node: Scalasca looks for "machine" (the root) and "node" (a host).
        class_name: StringRef,
        /// The parent node; UNDEFINED for the root.
        parent: SystemTreeNodeRef,
        ;
        /// What the members of the node share.
        domains: Vec<SystemTreeDomain>,
        properties: Vec<Property>,
    }

    /// A region.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Region(RegionRef) in regions {
        name: StringRef,
        canonical_name: StringRef,
        description: StringRef,
        role: RegionRole,
        paradigm: Paradigm,
        flags: RegionFlags,
        source_file: StringRef,
        begin_line: u32,
        end_line: u32,
    }

    /// A group.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Group(GroupRef) in groups {
        name: StringRef,
        group_type: GroupType,
        paradigm: Paradigm,
        flags: u32,
        /// References or indices, depending on `group_type`.
        members: Vec<u64>,
    }

    /// A communicator.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Comm(CommRef) in comms {
        name: StringRef,
        /// The members: a group of type [`GroupType::CommGroup`] or [`GroupType::CommSelf`].
        group: GroupRef,
        /// The communicator from which this one was created, or UNDEFINED.
        parent: CommRef,
        /// Flags, 0 for none. Writing accepts only 0, because the flags promise events that this crate does not write.
        flags: u32,
    }

    /// An intercommunicator: members of either group communicate with those of the other one.
    #[derive(Clone, Debug, PartialEq, Eq)]
    InterComm(CommRef) in inter_comms {
        name: StringRef,
        /// Both groups are of a type that [`Comm::group`] may have.
        group_a: GroupRef,
        group_b: GroupRef,
        /// The communicator by which it was created, or UNDEFINED.
        common: CommRef,
        flags: u32,
    }

    /// A window of remote memory access.
    #[derive(Clone, Debug, PartialEq, Eq)]
    RmaWin(RmaWinRef) in rma_wins {
        name: StringRef,
        comm: CommRef,
        /// Flags, 0 for none. Writing accepts only 0, because the flags promise events that this crate does not write.
        flags: u32,
    }

    /// One value of a metric class.
    #[derive(Clone, Debug, PartialEq, Eq)]
    MetricMember(MetricMemberRef) in metric_members {
        name: StringRef,
        description: StringRef,
        metric_type: MetricType,
        mode: MetricMode,
        /// The type of the values: `U64`, `I64` or `F64`.
        value_type: AttributeType,
        /// Values are multiplied by `base` to the power of `exponent`.
        base: MetricBase,
        exponent: i64,
        unit: StringRef,
    }

    /// A metric class: the values of one metric event.
    #[derive(Clone, Debug, PartialEq, Eq)]
    MetricClass(MetricRef) in metric_classes {
        members: Vec<MetricMemberRef>,
        occurrence: MetricOccurrence,
        recorder_kind: RecorderKind,
    }

    /// A parameter of a region.
    #[derive(Clone, Debug, PartialEq, Eq)]
    Parameter(ParameterRef) in parameters {
        name: StringRef,
        parameter_type: ParameterType,
    }
}

impl Default for Region {
    fn default() -> Self {
        Self {
            name: StringRef::UNDEFINED,
            canonical_name: StringRef::UNDEFINED,
            description: StringRef::UNDEFINED,
            role: RegionRole::Unspecified,
            paradigm: Paradigm::Unspecified,
            flags: RegionFlags::NONE,
            source_file: StringRef::UNDEFINED,
            begin_line: 0,
            end_line: 0,
        }
    }
}

impl LocationGroup {
    pub(crate) fn definition(&self, this: LocationGroupRef) -> Definition {
        Definition::LocationGroup {
            this,
            name: self.name,
            group_type: self.group_type.raw(),
            parent: self.system_tree_parent,
            creator: self.creator,
        }
    }
}

/// All global definitions.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "maps have the names of the kinds that are in them")]
pub struct Definitions {
    /// The clock; every archive has one.
    pub clock: Option<ClockProperties>,
    /// Strings; invalid UTF-8 is replaced.
    pub strings: BTreeMap<StringRef, String>,
    pub attributes: BTreeMap<AttributeRef, Attribute>,
    /// The system tree, with its properties and domains.
    pub system_tree_nodes: BTreeMap<SystemTreeNodeRef, SystemTreeNode>,
    /// Location groups, with their properties.
    pub location_groups: BTreeMap<LocationGroupRef, LocationGroup>,
    /// Locations, with their properties.
    pub locations: BTreeMap<LocationRef, Location>,
    pub regions: BTreeMap<RegionRef, Region>,
    pub groups: BTreeMap<GroupRef, Group>,
    pub comms: BTreeMap<CommRef, Comm>,
    /// They share their references with `comms`.
    pub inter_comms: BTreeMap<CommRef, InterComm>,
    pub rma_wins: BTreeMap<RmaWinRef, RmaWin>,
    pub metric_members: BTreeMap<MetricMemberRef, MetricMember>,
    pub metric_classes: BTreeMap<MetricRef, MetricClass>,
    pub parameters: BTreeMap<ParameterRef, Parameter>,
    /// Names, classes and properties of paradigms.
    pub paradigms: BTreeMap<Paradigm, ParadigmRecord>,
    /// Number of definitions of all kinds.
    pub records: u64,
    /// Numbers of definitions of all other kinds, by OTF2's name; "Unknown" counts those that this libotf2 lacks.
    pub others: BTreeMap<&'static str, u64>,
}

impl Definitions {
    /// Whether a communicator of either kind is defined.
    pub fn has_comm(&self, comm: CommRef) -> bool {
        self.comms.contains_key(&comm) || self.inter_comms.contains_key(&comm)
    }

    /// The text of a string; `None` if it is UNDEFINED or missing.
    pub fn string(&self, string: StringRef) -> Option<&str> {
        self.strings.get(&string).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BYTE_ORDER, HEADER_MARK};
    use crate::event_chunks::{RecordKind, rewrite_events};
    use crate::{Attributes, EVENT_CHUNK_BYTES, LocationRef, PartWriter, RegionRef};

    /// Enters and leaves regions `times` times, starting at a time.
    fn file(directory: &Path, name: &str, from: u64, times: u64) -> EventRecords {
        let mut part = PartWriter::create(directory, name).expect("a part");
        let mut to = part.event_writer(LocationRef::new(0)).expect("a writer");
        for number in 0..times {
            let region = RegionRef::new(u32::try_from(number % 1000).expect("small"));
            to.enter(from + 10 * number, region, Attributes::NONE).expect("an event");
            to.leave(from + 10 * number + 1, region, Attributes::NONE).expect("an event");
        }
        let _events = to.close().expect("events");
        let records = EventRecords::read(&part.event_file(LocationRef::new(0)), EVENT_CHUNK_BYTES).expect("records");
        part.close().expect("a part");
        records
    }

    #[test]
    fn records_of_two_files_become_one() {
        let scratch = tempfile::tempdir().expect("a directory");
        // `theirs` exceeds one chunk.
        let (theirs, ours) = (file(scratch.path(), "theirs", 100, 60_000), file(scratch.path(), "ours", 105, 3));
        let both = scratch.path().join("both.evt");
        theirs.write_with(&ours, &theirs.by_time(&ours), &both, EVENT_CHUNK_BYTES).expect("a file");
        let both = EventRecords::read(&both, EVENT_CHUNK_BYTES).expect("records");
        let both = both.as_slice();
        assert_eq!(both.len(), 120_006);
        assert!(both.is_sorted_by_key(|record| record.time));
        let [enter, leave] = [RecordKind::Enter, RecordKind::Leave].map(|kind| move |at| kind(RegionRef::new(at)));
        let first = [(100, enter(0)), (101, leave(0)), (105, enter(0)), (106, leave(0)), (110, enter(1))];
        assert!(both.iter().map(|record| (record.time, record.kind)).take(5).eq(first));
        // Merging with nothing leaves the file unchanged.
        let nothing = EventRecords { bytes: Vec::new(), records: Vec::new() };
        let same = scratch.path().join("same.evt");
        theirs.write_with(&nothing, &theirs.by_time(&nothing), &same, EVENT_CHUNK_BYTES).expect("a file");
        assert!(std::fs::read(same).expect("a file") == theirs.bytes, "byte for byte");
    }

    #[test]
    fn chunks_of_another_size_have_the_same_records() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = |name| scratch.path().join(name);
        let (large, again, short) = (path("large.evt"), path("again.evt"), path("short.evt"));
        let ours = path("ours/0.evt");
        let records = file(scratch.path(), "ours", 100, 60_000);
        assert!(rewrite_events(&ours, EVENT_CHUNK_BYTES, &large, 1 << 20).expect("a file"));
        let read = EventRecords::read(&large, 1 << 20).expect("records");
        let content = |records: &EventRecords| {
            let records = records.as_slice().iter();
            records.map(|record| (record.time, record.kind)).collect::<Vec<(u64, RecordKind)>>()
        };
        assert!(content(&read) == content(&records), "no record is lost");
        assert!(rewrite_events(&large, 1 << 20, &again, EVENT_CHUNK_BYTES).expect("a file"));
        assert!(std::fs::read(again).expect("a file") == records.bytes, "byte for byte, as libotf2 wrote it");
        // A file of one chunk is the same with all sizes, and one of the wanted size, too.
        let _records = file(scratch.path(), "few", 0, 10);
        for (from, bytes, wanted) in [(path("few/0.evt"), 1 << 20, EVENT_CHUNK_BYTES), (large, 1 << 20, 1 << 20)] {
            assert!(!rewrite_events(&from, bytes, &short, wanted).expect("nothing to do"));
            assert!(!short.exists());
        }
        // Damage is an error, not a loop.
        let cut = path("cut.evt");
        std::fs::write(&cut, &records.bytes[..600_000]).expect("a file");
        let error = rewrite_events(&cut, EVENT_CHUNK_BYTES, &short, 1 << 20).expect_err("damaged").to_string();
        assert!(error.contains("ends within a record"), "{error}");
    }

    #[test]
    fn what_is_no_event_file_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("x.evt");
        for (bytes, reason) in [
            (&[HEADER_MARK, BYTE_ORDER][..], "ends within a record"),
            (&[6, u8::MAX, 255, 255, 255, 255, 255, 255, 255, 255], "ends within a record"),
            (&[12, 5, 1, 2, 3, 4, 5], "a number is too long"),
            (&[9], "unknown type 9 at byte 0"),
        ] {
            std::fs::write(&path, bytes).expect("a file");
            let error = EventRecords::read(&path, EVENT_CHUNK_BYTES).err().expect("refused").to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
