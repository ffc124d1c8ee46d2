//! Orders definitions so that each precedes its uses.

use otf2::verbatim::Definition;

/// Appends definitions to those of an archive, which keep their order, each kind after its own. `lists` are the indices
/// of definitions in the archive that refer to appended ones.
pub(super) fn together(mut first: Vec<Definition>, appended: Vec<Definition>, lists: &[usize]) -> Vec<Definition> {
    // The end of each stage in the first archive, earlier stages included: appended definitions go there.
    let mut ends = [0; STAGES];
    for (place, definition) in first.iter().enumerate() {
        ends[stage(definition)] = place + 1;
    }
    let mut end = 0;
    for stage in &mut ends {
        end = end.max(*stage);
        *stage = end;
    }
    // A list that got members of other archives must follow their definitions.
    if lists.iter().any(|place| *place < ends[LOCATIONS]) {
        first.extend(appended);
        first.sort_by_key(stage);
        return first;
    }
    let mut appended = appended;
    appended.sort_by_key(stage);
    let mut appended = appended.into_iter().peekable();
    let mut all = Vec::with_capacity(first.len() + appended.len());
    for (place, definition) in first.into_iter().enumerate() {
        while let Some(definition) = appended.next_if(|definition| ends[stage(definition)] <= place) {
            all.push(definition);
        }
        all.push(definition);
    }
    all.extend(appended);
    all
}

/// Definitions of a stage refer only to earlier stages, and to earlier definitions of their own.
const STAGES: usize = 15;
const LOCATIONS: usize = 5;

fn stage(definition: &Definition) -> usize {
    match definition {
        Definition::ClockProperties { .. } => 0,
        Definition::String { .. } => 1,
        Definition::Paradigm { .. } | Definition::ParadigmProperty { .. } => 2,
        Definition::SystemTreeNode { .. }
        | Definition::SystemTreeNodeProperty { .. }
        | Definition::SystemTreeNodeDomain { .. } => 3,
        Definition::LocationGroup { .. } | Definition::LocationGroupProperty { .. } => 4,
        Definition::Location { .. } | Definition::LocationProperty { .. } => LOCATIONS,
        Definition::Attribute { .. } | Definition::Parameter { .. } | Definition::Region { .. } => 6,
        Definition::Group { .. } => 7,
        Definition::Comm { .. } | Definition::InterComm { .. } => 8,
        Definition::RmaWin { .. } => 9,
        Definition::MetricMember { .. } => 10,
        Definition::MetricClass { .. } | Definition::MetricInstance { .. } | Definition::MetricClassRecorder { .. } => {
            11
        }
        Definition::Callpath { .. }
        | Definition::CallpathParameter { .. }
        | Definition::Callsite { .. }
        | Definition::SourceCodeLocation { .. }
        | Definition::InterruptGenerator { .. }
        | Definition::CartDimension { .. }
        | Definition::IoParadigm { .. }
        | Definition::IoRegularFile { .. }
        | Definition::IoDirectory { .. } => 12,
        Definition::CallingContext { .. }
        | Definition::CallingContextProperty { .. }
        | Definition::CartTopology { .. }
        | Definition::IoFileProperty { .. }
        | Definition::IoHandle { .. } => 13,
        _ => STAGES - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use otf2::{CommRef, GroupRef, LocationGroupRef, LocationRef, StringRef};

    fn string(number: u32) -> Definition {
        Definition::String { this: StringRef::new(number), text: Vec::new() }
    }

    fn group(number: u32) -> Definition {
        let (this, name) = (GroupRef::new(number), StringRef::new(0));
        Definition::Group { this, name, group_type: 4, paradigm: 4, flags: 0, members: Vec::new() }
    }

    fn comm(number: u32) -> Definition {
        let (this, name, group) = (CommRef::new(number), StringRef::new(0), GroupRef::new(0));
        Definition::Comm { this, name, group, parent: CommRef::UNDEFINED, flags: 0 }
    }

    fn location(number: u64) -> Definition {
        let (this, name, group) = (LocationRef::new(number), StringRef::new(0), LocationGroupRef::new(0));
        Definition::Location { this, name, location_type: 1, number_of_events: 0, group }
    }

    #[test]
    fn what_is_appended_follows_its_kind() {
        let appended = || vec![comm(1), string(2), location(1), group(1)];
        let sorted = [string(0), string(1), string(2), location(0), location(1), group(0), group(1), comm(0), comm(1)];
        let first = vec![string(0), string(1), location(0), group(0), comm(0)];
        assert_eq!(together(first, appended(), &[3]), sorted);
        // The first archive's order is kept, whatever it is.
        let first = vec![comm(0), string(0), location(0), group(0), string(1)];
        let all = together(first, appended(), &[]);
        assert_eq!(all[..5], [comm(0), string(0), location(0), group(0), string(1)]);
        assert_eq!(all[5..], [string(2), location(1), group(1), comm(1)]);
        // But not if a list in it would refer to locations that come later.
        let first = vec![string(0), location(0), group(0), string(1), comm(0)];
        assert_eq!(together(first, appended(), &[2]), sorted);
    }
}
