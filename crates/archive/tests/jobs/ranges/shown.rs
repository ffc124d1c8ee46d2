//! What an archive shows of calls, ranges and operations, as text.

use std::collections::BTreeMap;

use otf2::records::Region;
use otf2::{Archive, Definitions, EventKind};

use crate::every_kind::{carried, group_of};
use crate::read::{events, text};

/// A location with its regions of calls, ranges and operations, in the order of their begins; each below the regions
/// around it, with its attributes on ENTER, and after `;` those on LEAVE.
pub(super) fn shown(archive: &Archive) -> BTreeMap<String, Vec<String>> {
    let definitions = archive.definitions().expect("definitions");
    let mut all = BTreeMap::new();
    for (location, events) in events(archive) {
        let mut lines: Vec<(String, bool)> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for event in &events {
            match event.kind {
                EventKind::Enter(region) => {
                    let group = group_of(&definitions, region.get().into());
                    let name = text(&definitions, definitions.regions[&region].name);
                    let is_wanted =
                        ["NCCL API", "NCCL operations"].contains(&group.as_str()) || group.starts_with("NVTX");
                    let is_wanted = is_wanted && !name.contains("enqueue") && !name.contains("launch");
                    let line = format!("{}{name} {}", "  ".repeat(open.len()), brief(&carried(&definitions, event)));
                    open.push(lines.len());
                    lines.push((line.trim_end().to_owned(), is_wanted));
                }
                EventKind::Leave(_) => {
                    let line = &mut lines[open.pop().expect("entered")].0;
                    if let end @ ("unfinished=1" | "closed=1") = carried(&definitions, event).as_str() {
                        *line += &format!("; {end}");
                    }
                }
                _ => {}
            }
        }
        let lines: Vec<String> = lines.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(line, _)| line).collect();
        if !lines.is_empty() {
            let name = text(&definitions, definitions.locations[&location].name);
            let name = name.split_once(" thread").map_or(name, |(kind, _)| kind);
            all.entry(name.to_owned()).or_insert_with(Vec::new).extend(lines);
        }
    }
    all
}

/// Attributes without what other tests hold to.
fn brief(attributes: &str) -> String {
    let is_known = |word: &&str| {
        let mut others = "group_depth launch count datatype stream algo proto channels warps seq timing".split(' ');
        !others.any(|other| word.starts_with(&format!("{other}=")))
    };
    // Attributes are in alphabetical order and may have spaces in their values.
    attributes.split(' ').filter(is_known).collect::<Vec<_>>().join(" ")
}

pub(super) fn text_of(definitions: &Definitions, region: &Region) -> String {
    text(definitions, region.canonical_name).to_owned()
}
