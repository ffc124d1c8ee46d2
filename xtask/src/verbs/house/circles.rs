//! Import cycles: among the children of each module, and between a module and its children.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{Crate, Import, Imported};

pub(super) struct Circle {
    pub(super) inside: String,
    pub(super) modules: Vec<String>,
    pub(super) way: Vec<String>,
    /// The first import for each pair of modules in the cycle.
    pub(super) imports: Vec<String>,
}

type Graph<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Import>>;

const ITSELF: &str = "mod";

pub(super) fn find(name: &str, code: &Crate<'_>, imports: &[Import]) -> Vec<Circle> {
    let mut levels: BTreeMap<&[String], Graph<'_>> = BTreeMap::new();
    for import in imports {
        let Imported::Module(to) = import.to else {
            continue;
        };
        let (Some(from), Some(to)) = (code.modules.get(import.from), code.modules.get(to)) else {
            continue;
        };
        let common = from.path.iter().zip(&to.path).take_while(|(from, to)| from == to).count();
        let level = levels.entry(from.path.get(..common).unwrap_or_default()).or_default();
        let a = from.path.get(common).map_or(ITSELF, String::as_str);
        let b = to.path.get(common).map_or(ITSELF, String::as_str);
        level.entry(a).or_default().entry(b).or_insert(import);
    }
    let mut circles = Vec::new();
    for (level, graph) in &levels {
        for members in components(graph) {
            let line = |import: &Import| {
                let file = code.modules.get(import.from).map_or("", |module| &module.file);
                format!("{file}:{} {}", import.line, import.path)
            };
            let inner = members.iter().filter_map(|from| graph.get(from)).flatten();
            let inner = inner.filter(|(to, _)| members.contains(*to));
            circles.push(Circle {
                inside: std::iter::once(name).chain(level.iter().map(String::as_str)).collect::<Vec<_>>().join("::"),
                modules: members.iter().map(|member| (*member).to_owned()).collect(),
                way: shortest(graph, &members).into_iter().map(line).collect(),
                imports: inner.map(|(_, import)| line(import)).collect(),
            });
        }
    }
    circles
}

fn components<'a>(graph: &Graph<'a>) -> Vec<BTreeSet<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph.keys().map(|from| (*from, reach(graph, from))).collect();
    let mut components: Vec<BTreeSet<&str>> = Vec::new();
    for (from, all) in &reached {
        let back = |to: &&str| reached.get(to).is_some_and(|all| all.contains(from));
        let members: BTreeSet<&str> = all.iter().copied().filter(back).collect();
        if members.len() > 1 && !components.contains(&members) {
            components.push(members);
        }
    }
    components
}

fn reach<'a>(graph: &Graph<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        for next in graph.get(node).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    seen
}

fn shortest<'a>(graph: &Graph<'a>, members: &BTreeSet<&'a str>) -> Vec<&'a Import> {
    let ways = members.iter().filter_map(|start| around(graph, members, start));
    ways.min_by_key(Vec::len).unwrap_or_default()
}

fn around<'a>(graph: &Graph<'a>, members: &BTreeSet<&'a str>, start: &str) -> Option<Vec<&'a Import>> {
    let mut ways: BTreeMap<&str, Vec<&Import>> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        let way = ways.get(node).cloned().unwrap_or_default();
        for (next, import) in graph.get(node).into_iter().flatten().filter(|(next, _)| members.contains(*next)) {
            let way = way.iter().copied().chain([*import]).collect();
            if *next == start {
                return Some(way);
            }
            if !ways.contains_key(next) {
                ways.insert(next, way);
                open.push_back(next);
            }
        }
    }
    None
}
