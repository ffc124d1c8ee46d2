//! The findings and their severity.

use std::collections::BTreeMap;
use std::fmt;

use analysis::Trace;
use otf2::LocationRef;
use schemars::JsonSchema;
use serde::Serialize;
use small_sort::Gather;

use super::rules::{Rule, Severity};

const LISTED: u64 = 20;

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    severity: Severity,
    rule: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.severity.name(), self.rule)?;
        if let (Some(location), Some(name)) = (self.location, &self.name) {
            write!(f, "location {location} \"{name}\": ")?;
        }
        if let Some(time) = self.time_ns {
            write!(f, "at {time}: ")?;
        }
        f.write_str(&self.message)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Broken {
    pub severity: Severity,
    pub count: u64,
    pub sentence: &'static str,
}

#[derive(Debug, Default)]
pub(crate) struct Findings {
    counts: BTreeMap<Rule, u64>,
    pub(crate) listed: Vec<Finding>,
}

impl Findings {
    pub(crate) fn general(&mut self, rule: Rule, message: impl Into<String>) {
        self.add(rule, None, None, message.into());
    }

    pub(crate) fn at(
        &mut self,
        (trace, location): (&Trace, LocationRef),
        time: Option<u64>,
        rule: Rule,
        message: impl Into<String>,
    ) {
        self.add(rule, Some((location.get(), trace.location_name(location))), time, message.into());
    }

    fn add(&mut self, rule: Rule, location: Option<(u64, String)>, time_ns: Option<u64>, message: String) {
        let count = self.counts.entry(rule).or_insert(0);
        *count += 1;
        if *count > LISTED {
            return;
        }
        let (location, name) = location.unzip();
        self.listed.push(Finding { severity: rule.severity(), rule: rule.number(), location, name, time_ns, message });
    }

    pub(crate) fn number(&self, severity: Severity) -> u64 {
        self.counts.iter().filter(|(rule, _)| rule.severity() == severity).map(|(_, count)| count).sum()
    }

    pub(crate) fn has(&self, rules: &[Rule]) -> bool {
        rules.iter().any(|rule| self.counts.contains_key(rule))
    }

    /// Rules with more findings than are listed, and the number of the others.
    pub(crate) fn unlisted(&self) -> Vec<(Rule, u64)> {
        self.counts.iter().filter(|(_, count)| **count > LISTED).map(|(rule, count)| (*rule, count - LISTED)).collect()
    }

    pub(crate) fn rules(&self) -> BTreeMap<&'static str, Broken> {
        let broken = |(rule, count): (&Rule, &u64)| {
            (rule.number(), Broken { severity: rule.severity(), count: *count, sentence: rule.sentence() })
        };
        self.counts.iter().map(broken).gather()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_broken_very_often_is_counted_and_not_listed() {
        let mut findings = Findings::default();
        for number in 0..30 {
            findings.general(Rule::Nesting, number.to_string());
        }
        findings.general(Rule::Lost, "3 events");
        assert_eq!((findings.number(Severity::Fault), findings.number(Severity::Remark)), (30, 1));
        assert_eq!(findings.listed.len(), 21);
        assert_eq!(findings.unlisted(), [(Rule::Nesting, 10)]);
        assert_eq!(findings.rules()["S12"].count, 30);
    }
}
