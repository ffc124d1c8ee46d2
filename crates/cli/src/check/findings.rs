//! What was found, and how bad it is.

use std::collections::BTreeMap;
use std::fmt;

use otf2::LocationRef;
use serde::Serialize;

/// How many findings of one rule are listed.
const LISTED: u64 = 20;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// The archive is wrong.
    Fault,
    /// The run was not whole, and the archive says so.
    Remark,
}

impl Severity {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fault => "fault",
            Self::Remark => "remark",
        }
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $name:literal $severity:ident;)*) => {
        /// What is checked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            /// Its name in the output.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name,)* }
            }

            /// How bad it is to break it.
            pub(crate) const fn severity(self) -> Severity {
                match self { $(Self::$rule => Severity::$severity,)* }
            }
        }
    };
}

rules! {
    /// Definitions can be read and refer to what is defined.
    Definitions "definitions" Fault;
    /// The anchor counts what there is.
    Anchor "anchor" Fault;
    /// Communicators have valid members.
    Communicator "communicator" Fault;
    /// A location has its files, whole.
    File "file" Fault;
    /// A location has as many events as promised.
    EventCount "event-count" Fault;
    /// Events can be read and are in time order.
    Events "events" Fault;
    /// Events are within the time that the clock properties span.
    Span "span" Fault;
    /// Regions nest and all that are entered are left.
    Nesting "nesting" Fault;
    /// Events refer to what is defined, with values of the right types.
    Reference "reference" Fault;
    /// Collectives begin and end in turn.
    CollectivePair "collective-pair" Fault;
    /// A collective's operation is that of the region around it.
    CollectiveRole "collective-role" Fault;
    /// Requests are made once and completed once.
    Request "request" Fault;
    /// Records of communication are made by members, and name members.
    Membership "membership" Fault;
    /// Members of a communicator do the same collectives in the same order.
    CollectiveMatch "collective-match" Fault;
    /// All members of a communicator take part in a collective.
    CollectiveRank "collective-rank" Fault;
    /// Every message that is sent is received.
    MessageMatch "message-match" Fault;
    /// What was seen is accounted for.
    Account "account" Fault;
    /// Ranks lack collectives or messages, and the archive says that it is not whole.
    Partial "partial" Remark;
    /// Ranks of a communicator that nobody recorded.
    RankMissing "rank-missing" Remark;
    /// Operations that had not ended when recording did.
    Unfinished "unfinished" Remark;
    /// Events that could not be recorded.
    Lost "lost" Remark;
    /// Recordings that could not be used as a whole.
    Problem "problem" Remark;
}

/// A finding.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
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
        write!(f, "{}: {}: ", self.severity.name(), self.rule)?;
        if let (Some(location), Some(name)) = (self.location, &self.name) {
            write!(f, "location {location} \"{name}\": ")?;
        }
        if let Some(time) = self.time_ns {
            write!(f, "at {time}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// All findings, those of the same rule counted.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    counts: BTreeMap<Rule, u64>,
    listed: Vec<Finding>,
}

impl Findings {
    /// Adds one.
    pub(crate) fn add(
        &mut self,
        rule: Rule,
        location: Option<(LocationRef, String)>,
        time_ns: Option<u64>,
        message: impl Into<String>,
    ) {
        let count = self.counts.entry(rule).or_insert(0);
        *count += 1;
        if *count > LISTED {
            return;
        }
        let (location, name) = location.unzip();
        self.listed.push(Finding {
            severity: rule.severity(),
            rule: rule.name(),
            location: location.map(LocationRef::get),
            name,
            time_ns,
            message: message.into(),
        });
    }

    /// Adds one about the archive as a whole.
    pub(crate) fn general(&mut self, rule: Rule, message: impl Into<String>) {
        self.add(rule, None, None, message);
    }

    /// How many of a severity.
    fn number(&self, severity: Severity) -> u64 {
        let counts = self.counts.iter();
        counts
            .filter(|(rule, _)| rule.severity() == severity)
            .map(|(_, count)| count)
            .sum()
    }

    /// How many faults.
    pub(crate) fn faults(&self) -> u64 {
        self.number(Severity::Fault)
    }

    /// How many remarks.
    pub(crate) fn remarks(&self) -> u64 {
        self.number(Severity::Remark)
    }

    /// Those that are listed.
    pub(crate) fn listed(&self) -> &[Finding] {
        &self.listed
    }

    /// Rules with more findings than are listed, and how many more.
    pub(crate) fn unlisted(&self) -> impl Iterator<Item = (Rule, u64)> {
        let counts = self.counts.iter();
        counts
            .filter(|(_, count)| **count > LISTED)
            .map(|(rule, count)| (*rule, count - LISTED))
    }

    /// How often each rule is broken.
    pub(crate) fn rules(&self) -> serde_json::Value {
        let rules = self.counts.iter().map(|(rule, count)| {
            let value = serde_json::json!({ "severity": rule.severity(), "count": count });
            (rule.name().to_owned(), value)
        });
        serde_json::Value::Object(rules.collect())
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
        assert_eq!((findings.faults(), findings.remarks()), (30, 1));
        assert_eq!(findings.listed().len(), 21);
        assert_eq!(
            findings.unlisted().collect::<Vec<_>>(),
            [(Rule::Nesting, 10)]
        );
        assert_eq!(findings.rules()["nesting"]["count"], 30);
    }
}
