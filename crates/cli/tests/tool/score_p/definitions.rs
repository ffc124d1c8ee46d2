//! The definitions that Score-P would write.

use otf2::verbatim::Definition;
use otf2::{
    AttributeRef, AttributeValue, CallingContextRef, CommRef, GroupRef, IoFileRef, IoHandleRef, IoParadigmRef,
    LocationGroupRef, LocationRef, MetricMemberRef, MetricRef, ParameterRef, RegionRef, SourceCodeLocationRef,
    StringRef, SystemTreeNodeRef,
};

use super::{ScoreP, WINDOW, WORK, WORLD};
use crate::tool::made_up::{HOSTS, RANKS, SECOND, Texts, number};

impl ScoreP {
    pub(super) fn definitions(&self, events: &[(LocationRef, u64)]) -> Vec<Definition> {
        let mut texts = Texts::default();
        assert_eq!(texts.get("train"), StringRef::new(0));
        let mut all = Vec::new();
        self.paradigms_and_hosts(&mut texts, &mut all);
        self.locations(events, &mut texts, &mut all);
        self.regions_and_communicators(&mut texts, &mut all);
        others(&mut texts, &mut all);
        let own = |at| number(self.clock().timer(self.timer, at));
        let mut definitions = vec![Definition::ClockProperties {
            timer_resolution: self.resolution(),
            global_offset: own(SECOND),
            trace_length: own(6 * SECOND) - own(SECOND) + 1,
            realtime_timestamp: u64::MAX,
        }];
        definitions.extend(texts.definitions());
        definitions.extend(all);
        definitions
    }

    fn paradigms_and_hosts(&self, texts: &mut Texts, all: &mut Vec<Definition>) {
        let mut text = |text: &str| texts.get(text);
        if self.only.is_none() {
            all.push(Definition::Paradigm { paradigm: 4, name: text("MPI"), class: 0 });
            all.push(Definition::ParadigmProperty {
                paradigm: 4,
                property: 0,
                value: AttributeValue::String(text("Comm ${id}")),
            });
        }
        let (this, identification, name) = (IoParadigmRef::new(0), text("POSIX"), text("POSIX I/O"));
        all.push(Definition::IoParadigm { this, identification, name, class: 0, flags: 0, properties: Vec::new() });
        let (this, name, class_name) = (SystemTreeNodeRef::new(0), text("Linux"), text("machine"));
        all.push(Definition::SystemTreeNode { this, name, class_name, parent: SystemTreeNodeRef::UNDEFINED });
        for (number, host) in (1..).zip(HOSTS) {
            // With the domain, which NCCL's archive does not have.
            let name = text(&format!("{}.cluster.example", host.name));
            let (this, class_name, parent) = (SystemTreeNodeRef::new(number), text("node"), SystemTreeNodeRef::new(0));
            all.push(Definition::SystemTreeNode { this, name, class_name, parent });
            all.push(Definition::SystemTreeNodeDomain { of: this, domain: 1 });
        }
    }

    fn locations(&self, events: &[(LocationRef, u64)], texts: &mut Texts, all: &mut Vec<Definition>) {
        let has_mpi = self.only.is_none();
        let mut text = |text: &str| texts.get(text);
        for group in 0..if has_mpi { RANKS } else { 1 } {
            let rank = self.only.unwrap_or(group);
            let name = if has_mpi { text(&format!("MPI Rank {rank}")) } else { text("Process") };
            let this = LocationGroupRef::new(u32::try_from(group).expect("few"));
            let parent = SystemTreeNodeRef::new(if rank == RANKS - 1 { 2 } else { 1 });
            let creator = LocationGroupRef::UNDEFINED;
            all.push(Definition::LocationGroup { this, name, group_type: 1, parent, creator });
        }
        for (this, number_of_events) in events.iter().copied() {
            let name = text(if this.get() >> 32 == 0 { "Master thread" } else { "Pthread thread 1" });
            let group = LocationGroupRef::new(u32::try_from(this.get() & 0xff).expect("few"));
            all.push(Definition::Location { this, name, location_type: 1, number_of_events, group });
        }
    }

    fn regions_and_communicators(&self, texts: &mut Texts, all: &mut Vec<Definition>) {
        let has_mpi = self.only.is_none();
        let mut text = |text: &str| texts.get(text);
        for (number, (name, role)) in (0..).zip([("main", 1), ("MPI_Allreduce", 25), ("work", 1)]) {
            all.push(Definition::Region {
                this: RegionRef::new(number),
                name: text(name),
                canonical_name: text(name),
                description: StringRef::UNDEFINED,
                role,
                paradigm: if role == 25 { 4 } else { 1 },
                flags: 0,
                source_file: text("MPI"),
                begin_line: 0,
                end_line: 0,
            });
        }
        // In the order of ranks, as Score-P lists masters only.
        let groups = [(0, 4, vec![0, 1, 2]), (1, 5, vec![0, 1, 2]), (2, 6, Vec::new())];
        for (number, group_type, members) in groups.into_iter().filter(|_| has_mpi) {
            let (this, name) = (GroupRef::new(number), text(""));
            all.push(Definition::Group { this, name, group_type, paradigm: 4, flags: 0, members });
        }
        let comms = [(0, "MPI_COMM_WORLD", 1), (1, "MPI_COMM_SELF", 2)];
        for (number, name, group) in comms.into_iter().filter(|_| has_mpi) {
            let (this, name, group) = (CommRef::new(number), text(name), GroupRef::new(group));
            all.push(Definition::Comm { this, name, group, parent: CommRef::UNDEFINED, flags: 0 });
        }
        if has_mpi {
            all.push(Definition::RmaWin { this: WINDOW, name: text("Win 0"), comm: WORLD, flags: 1 });
        }
    }
}

/// What else archives of Score-P's can have.
fn others(texts: &mut Texts, all: &mut Vec<Definition>) {
    let mut text = |text: &str| texts.get(text);
    all.push(Definition::MetricMember {
        this: MetricMemberRef::new(0),
        name: text("ru_maxrss"),
        description: text(""),
        metric_type: 2,
        mode: 2,
        value_type: 4,
        base: 0,
        exponent: 0,
        unit: text("KiB"),
    });
    let (class, members) = (MetricRef::new(0), vec![MetricMemberRef::new(0)]);
    all.push(Definition::MetricClass { this: class, members, occurrence: 2, recorder_kind: 1 });
    let (this, recorder) = (MetricRef::new(1), LocationRef::new(0));
    all.push(Definition::MetricInstance { this, class, recorder, scope_kind: 1, scope: 0 });
    all.push(Definition::Parameter { this: ParameterRef::new(0), name: text("step"), parameter_type: 2 });
    let (this, name, description) = (AttributeRef::new(0), text("ProcessId"), text("Process identifier"));
    all.push(Definition::Attribute { this, name, description, attribute_type: 4 });
    let source_code_location = SourceCodeLocationRef::new(0);
    all.push(Definition::SourceCodeLocation { this: source_code_location, file: text("train.c"), line: 42 });
    let (this, parent) = (CallingContextRef::new(0), CallingContextRef::UNDEFINED);
    all.push(Definition::CallingContext { this, region: WORK, source_code_location, parent });
    let (this, scope) = (IoFileRef::new(0), SystemTreeNodeRef::new(1));
    all.push(Definition::IoRegularFile { this, name: text("/data/checkpoint"), scope });
    all.push(Definition::IoHandle {
        this: IoHandleRef::new(0),
        name: text(""),
        file: IoFileRef::new(0),
        paradigm: IoParadigmRef::new(0),
        flags: 0,
        comm: CommRef::UNDEFINED,
        parent: IoHandleRef::UNDEFINED,
    });
}
