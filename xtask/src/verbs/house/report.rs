//! The findings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::circles::Circle;
use super::limits::{Exception, Limit, Rule};
use super::rooms::{self, Room};

pub(super) struct Found {
    pub(super) rule: Rule,
    /// A file, `file::function`, folder, room, crate or import.
    pub(super) what: String,
    pub(super) line: Option<usize>,
    pub(super) is: usize,
}

impl Found {
    pub(super) fn new(rule: Rule, what: &str, is: usize) -> Self {
        Self { rule, what: what.to_owned(), line: None, is }
    }
}

pub(super) struct Report {
    failed: bool,
    rules: Vec<Judged>,
    unneeded: Vec<String>,
    circles: Vec<Circle>,
    pub(super) rooms: BTreeMap<String, Room>,
}

struct Judged {
    rule: Rule,
    what: &'static str,
    most: usize,
    may_exceed: usize,
    exceed: usize,
    failed: bool,
    over: Vec<Found>,
}

const SHOWN: usize = 10;

impl Report {
    pub(super) fn new(
        mut found: Vec<Found>,
        circles: Vec<Circle>,
        rooms: BTreeMap<String, Room>,
        limits: &[Limit],
        exceptions: &[Exception],
    ) -> Self {
        let own = |found: &Found| {
            exceptions.iter().find(|exception| exception.rule == found.rule && exception.what == found.what)
        };
        let is_over = |limit: &Limit, found: &Found| {
            found.rule == limit.rule && found.is > own(found).map_or(limit.most, |exception| exception.most)
        };
        let needed = |exception: &&Exception| {
            let most = limits.iter().find(|limit| limit.rule == exception.rule).map_or(0, |limit| limit.most);
            let it = found.iter().find(|found| own(found).is_some_and(|own| std::ptr::eq(own, *exception)));
            // A tighter limit is kept even if nothing reaches it yet.
            exception.most < most || it.is_some_and(|found| found.is > most)
        };
        let unneeded = exceptions.iter().filter(|exception| !needed(exception));
        let unneeded: Vec<String> = unneeded.map(|one| format!("{} ({})", one.what, one.reason)).collect();
        found.sort_by(|a, b| b.is.cmp(&a.is).then_with(|| a.what.cmp(&b.what)));
        let mut rules = Vec::new();
        for limit in limits {
            let over: Vec<Found> = found.extract_if(.., |found| is_over(limit, found)).collect();
            // A cycle counts by its modules, so that breaking up a large one shows progress.
            let circles = limit.rule == Rule::Circles;
            let exceed = if circles { over.iter().map(|circle| circle.is).sum() } else { over.len() };
            let Limit { rule, what, most, over: may_exceed } = *limit;
            rules.push(Judged { rule, what, most, may_exceed, exceed, failed: exceed > may_exceed, over });
        }
        let failed = !unneeded.is_empty() || rules.iter().any(|rule: &Judged| rule.failed);
        Self { failed, rules, unneeded, circles, rooms }
    }

    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    #[cfg(test)]
    pub(super) fn broken(&self) -> Vec<Rule> {
        self.rules.iter().filter(|rule| rule.failed).map(|rule| rule.rule).collect()
    }

    pub(super) fn text(&self, all: bool) -> String {
        let mut text = String::new();
        for rule in self.rules.iter().filter(|rule| rule.failed || all && rule.exceed > 0) {
            rule.list(&mut text, all);
            if rule.rule == Rule::Circles {
                list_circles(&mut text, &self.circles, all);
            }
        }
        for exception in &self.unneeded {
            let _ = writeln!(text, "FAIL  an exception that is no longer needed: {exception}");
        }
        let _ = writeln!(text, "\n{:<42}{:>7}{:>9}{:>9}", "rule", "limit", "exceed", "may");
        for rule in &self.rules {
            let _ = write!(text, "{:<42}{:>7}{:>9}{:>9}", rule.what, rule.most, rule.exceed, rule.may_exceed);
            match rule.exceed.cmp(&rule.may_exceed) {
                std::cmp::Ordering::Greater => text.push_str("  FAIL"),
                std::cmp::Ordering::Less => text.push_str("  can be lowered"),
                std::cmp::Ordering::Equal => {}
            }
            text.push('\n');
        }
        self.list_rooms(&mut text);
        text
    }

    fn list_rooms(&self, text: &mut String) {
        let _ = writeln!(text, "\n{:<42}{:>7}{:>11}{:>9}", "room", "files", "production", "test");
        for (name, room) in &self.rooms {
            let _ = writeln!(text, "{name:<42}{:>7}{:>11}{:>9}", room.files, room.production, room.test);
        }
        text.push('\n');
        for (name, (files, lines)) in rooms::categories(&self.rooms) {
            let _ = writeln!(text, "{name:<42}{files:>7} files{lines:>9} lines");
        }
    }
}

impl Judged {
    fn list(&self, text: &mut String, all: bool) {
        let word = if self.failed { "FAIL" } else { "over" };
        let _ = writeln!(text, "{word}  {}: {} exceed {}, {} may", self.what, self.exceed, self.most, self.may_exceed);
        let shown = if all { self.over.len() } else { SHOWN };
        for found in self.over.iter().take(shown) {
            let line = found.line.map_or_else(String::new, |line| format!(" (line {line})"));
            let _ = writeln!(text, "      {:>6}  {}{line}", found.is, found.what);
        }
        if self.over.len() > shown {
            let _ = writeln!(text, "      and {} more: --all lists them", self.over.len() - shown);
        }
    }
}

fn list_circles(text: &mut String, circles: &[Circle], all: bool) {
    for circle in circles.iter().take(if all { circles.len() } else { SHOWN }) {
        let (shown, what) = if all { (usize::MAX, "imports") } else { (SHOWN, "a way around") };
        let modules: Vec<&str> = circle.modules.iter().take(shown).map(String::as_str).collect();
        let more = if circle.modules.len() > shown { ", …" } else { "" };
        let _ = writeln!(text, "      in {}: {}{more}; {what}:", circle.inside, modules.join(", "));
        for import in if all { &circle.imports } else { &circle.way } {
            let _ = writeln!(text, "        {import}");
        }
    }
}
