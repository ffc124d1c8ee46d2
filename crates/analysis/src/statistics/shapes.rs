//! Communicators of one shape, such as all tensor-parallel groups of a job: they are shown as one.

use std::collections::{BTreeMap, BTreeSet};

use crate::units::plural;

/// The shape of each communicator, given its name, number of ranks and functions: see
/// [`crate::results::Communicator::shape`].
pub fn shapes<'a>(communicators: &[(&'a str, u64, BTreeSet<String>)]) -> Vec<String> {
    // "world split 12 (8)" and "world split 7 (8)" differ in numbers only, and so do ids.
    let stem = |name: &'a str| {
        let base = name.rsplit_once(" (").map_or(name, |(base, _)| base);
        let words = base.split(' ').map(|word| if word.starts_with("0x") { "#" } else { word });
        let stem = words.collect::<Vec<_>>().join(" ").replace(|letter: char| letter.is_ascii_digit(), "#");
        let mut letters: Vec<char> = stem.chars().collect();
        letters.dedup_by(|a, b| *a == '#' && *b == '#');
        (base, letters.into_iter().collect::<String>())
    };
    let key = |(name, ranks, functions): &(&'a str, u64, BTreeSet<String>)| (stem(name).1, *ranks, functions.clone());
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, communicator) in communicators.iter().enumerate() {
        groups.entry(key(communicator)).or_default().push(at);
    }
    let mut found: Vec<String> = communicators.iter().map(|(name, ..)| (*name).to_owned()).collect();
    for ((_, ranks, _), group) in groups.into_iter().filter(|(_, group)| group.len() > 1) {
        let base = group.first().and_then(|at| communicators.get(*at)).map_or("", |(name, ..)| stem(name).0);
        let ranks = plural(ranks, "rank", "ranks");
        let name = if base.is_empty() { String::new() } else { format!("{base} … ") };
        let shape = format!("{name}({} × {ranks})", group.len());
        for at in group {
            found[at].clone_from(&shape);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::sort::Gather as _;

    #[test]
    fn communicators_of_one_shape_share_a_name() {
        let all = |functions: &str| -> BTreeSet<String> { functions.split(' ').map(str::to_owned).gather() };
        let shapes = shapes(&[
            ("world (16)", 16, all("ncclAllReduce")),
            ("tp0 (8)", 8, all("ncclAllReduce")),
            ("tp12 (8)", 8, all("ncclAllReduce")),
            ("dp0 (8)", 8, all("ncclAllReduce")),
            ("world split 1 (2)", 2, all("ncclSend ncclRecv")),
            ("world split 10 (2)", 2, all("ncclSend ncclRecv")),
            ("world split 11 (2)", 2, all("ncclAllReduce")),
        ]);
        let (tp, split) = ("tp0 … (2 × 8 ranks)", "world split 1 … (2 × 2 ranks)");
        assert_eq!(shapes, ["world (16)", tp, tp, "dp0 (8)", split, split, "world split 11 (2)"]);
    }
}
