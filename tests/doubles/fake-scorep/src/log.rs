//! What the stand-in wrote down.

use std::collections::BTreeMap;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    pub location: String,
    pub region: String,
    pub begin: u64,
    pub end: u64,
    pub depth: usize,
    pub attributes: BTreeMap<String, String>,
}

/// The log of one process, checked: on each location regions nest, and time does not go back.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub locations: Vec<String>,
    /// Roles of the regions, by name.
    pub roles: BTreeMap<String, i32>,
    /// Metrics: name of the location, name of the metric, value.
    pub metrics: Vec<(String, String, u64)>,
    /// Regions in the order in which they were left.
    pub intervals: Vec<Interval>,
    pub left_open: usize,
    pub has_ended: bool,
}

struct Open {
    region: String,
    begin: u64,
    attributes: BTreeMap<String, String>,
}

impl Log {
    /// All logs that begin so: one for each process.
    pub fn all(prefix: &Path) -> Vec<Self> {
        let directory = prefix.parent().expect("a directory");
        let name = prefix.file_name().expect("a name").to_string_lossy();
        let entries = std::fs::read_dir(directory).expect("the directory of the logs");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let mut paths: Vec<_> = paths
            .filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}."))))
            .collect();
        paths.sort();
        let texts = paths.iter().map(|path| std::fs::read_to_string(path).expect("a log"));
        texts.map(|text| Self::parse(&text)).collect()
    }

    pub fn on<'a>(&'a self, location: &'a str) -> impl Iterator<Item = &'a Interval> {
        self.intervals.iter().filter(move |interval| interval.location == location)
    }

    fn parse(text: &str) -> Self {
        let mut log = Self::default();
        let mut stacks: Vec<Vec<Open>> = Vec::new();
        let mut last: Vec<u64> = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["location", number, _, name @ ..] => {
                    assert_eq!(number.parse(), Ok(log.locations.len()), "{line}");
                    log.locations.push(name.join(" "));
                    stacks.push(Vec::new());
                    last.push(0);
                }
                ["region", _, "role", role, "paradigm", paradigm, name @ ..] => {
                    assert_eq!(*paradigm, "1", "the user's paradigm: {line}");
                    log.roles.insert(name.join(" "), role.parse().expect("a role"));
                }
                ["enter", location, time, rest @ ..] => {
                    let (location, time) = place(location, time);
                    assert!(time >= last[location], "time goes back: {line}");
                    last[location] = time;
                    let (attributes, name): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| word.contains('='));
                    let attributes = attributes.iter().filter_map(|word| word.split_once('='));
                    stacks[location].push(Open {
                        region: name.join(" "),
                        begin: time,
                        attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
                    });
                }
                ["exit", location, time, name @ ..] => {
                    let (location, time) = place(location, time);
                    assert!(time >= last[location], "time goes back: {line}");
                    last[location] = time;
                    let open = stacks[location].pop().expect("a region was entered");
                    assert_eq!(open.region, name.join(" "), "does not nest: {line}");
                    log.intervals.push(Interval {
                        location: log.locations[location].clone(),
                        region: open.region,
                        begin: open.begin,
                        end: time,
                        depth: stacks[location].len(),
                        attributes: open.attributes,
                    });
                }
                ["metric", location, name, value] => {
                    let (location, value) = place(location, value);
                    let name = (*name).to_owned();
                    log.metrics.push((log.locations[location].clone(), name, value));
                }
                ["end"] => log.has_ended = true,
                _ => panic!("{line}"),
            }
        }
        log.left_open = stacks.iter().map(Vec::len).sum();
        log
    }
}

fn place(location: &str, time: &str) -> (usize, u64) {
    (location.parse().expect("a location"), time.parse().expect("a time"))
}
