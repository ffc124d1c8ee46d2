//! The order of definitions: nothing is used before it is there.

use otf2::verbatim::Definition;

/// Puts definitions behind those of an archive that keep their order, each kind behind its own. `lists` are the places
/// of those in the archive that refer to what is appended.
pub(super) fn together(mut first: Vec<Definition>, appended: Vec<Definition>, lists: &[usize]) -> Vec<Definition> {
    // Where each stage of the first archive ends: what is appended of it or before comes behind that.
    let mut ends = [0; STAGES];
    for (place, definition) in first.iter().enumerate() {
        if let Some(end) = ends.get_mut(stage(definition)) {
            *end = place + 1;
        }
    }
    let mut end = 0;
    for stage in &mut ends {
        end = end.max(*stage);
        *stage = end;
    }
    // A list that got members of other archives comes behind their definitions; else all are put in order.
    if lists.iter().any(|place| *place < ends[LOCATIONS]) {
        first.extend(appended);
        first.sort_by_key(stage);
        return first;
    }
    let mut placed: Vec<(usize, usize, Definition)> = Vec::new();
    for definition in appended {
        let stage = stage(&definition);
        placed.push((ends.get(stage).copied().unwrap_or(end), stage, definition));
    }
    placed.sort_by_key(|(place, stage, _)| (*place, *stage));
    let mut placed = placed.into_iter().peekable();
    let mut all = Vec::with_capacity(first.len() + placed.len());
    for (place, definition) in first.into_iter().enumerate() {
        while let Some((.., definition)) = placed.next_if(|(at, ..)| *at <= place) {
            all.push(definition);
        }
        all.push(definition);
    }
    all.extend(placed.map(|(.., definition)| definition));
    all
}

/// Definitions of a stage refer to earlier ones, and to earlier ones of their own.
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

    fn location(number: u64) -> Definition {
        Definition::Location {
            this: LocationRef::new(number),
            name: StringRef::new(0),
            location_type: 1,
            number_of_events: 0,
            group: LocationGroupRef::new(0),
        }
    }

    fn group(number: u32) -> Definition {
        Definition::Group {
            this: GroupRef::new(number),
            name: StringRef::new(0),
            group_type: 4,
            paradigm: 4,
            flags: 0,
            members: Vec::new(),
        }
    }

    fn comm(number: u32) -> Definition {
        Definition::Comm {
            this: CommRef::new(number),
            name: StringRef::new(0),
            group: GroupRef::new(0),
            parent: CommRef::UNDEFINED,
            flags: 0,
        }
    }

    #[test]
    fn what_is_appended_follows_its_kind() {
        let appended = || vec![comm(1), string(2), location(1), group(1)];
        let sorted = [string(0), string(1), string(2), location(0), location(1), group(0), group(1), comm(0), comm(1)];
        let first = vec![string(0), string(1), location(0), group(0), comm(0)];
        assert_eq!(together(first, appended(), &[3]), sorted);
        // The order of the first archive is kept, whatever it is.
        let first = vec![comm(0), string(0), location(0), group(0), string(1)];
        let all = together(first, appended(), &[]);
        assert_eq!(all[..5], [comm(0), string(0), location(0), group(0), string(1)]);
        assert_eq!(all[5..], [string(2), location(1), group(1), comm(1)]);
        // But not where a list in it would refer to locations that come later.
        let first = vec![string(0), location(0), group(0), string(1), comm(0)];
        assert_eq!(together(first, appended(), &[2]), sorted);
    }
}
