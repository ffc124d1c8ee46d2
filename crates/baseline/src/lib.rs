//! What another measurement gives for the classes of a job's collectives: an archive, or the output of nccl-tests.
//!
//! ```text
//!  measured     a bandwidth, of what and where
//!  nccl_tests   reads the output of nccl-tests, as text or JSON
//!  curve        the bandwidth at a size, between those that were measured
//! ```

#![forbid(unsafe_code)]

mod curve;
mod measured;
mod nccl_tests;

use std::collections::BTreeSet;

use analysis::Shape;
use analysis::report::{self, OperationClass, Report};
use analysis::units::{bandwidth, bytes};
use nccl_events::collective::{Collective, Function};
use nccl_events::index::index;

use curve::Curve;
use measured::{Measured, Place};

/// Below this share of the baseline, a class is named, if it has this share of the job's time.
const LOW: f64 = 0.7;
const LEAST_TIME: f64 = 0.05;

#[derive(Debug)]
pub struct Baseline {
    measured: Vec<Measured>,
}

impl Baseline {
    /// Reads the output of nccl-tests, of one test or several.
    ///
    /// # Errors
    ///
    /// A text without measurements of collectives, or that does not say of what they are.
    pub fn of_text(text: &str) -> Result<Self, String> {
        nccl_tests::read(text).map(|measured| Self { measured })
    }

    pub fn of_report(report: &Report) -> Self {
        let of_class = |class: &OperationClass| {
            Some(Measured {
                collective: collective(class)?,
                place: Place::Shape(shape(report, class)?),
                bytes: size(report, class)?,
                busbw: class.busbw?.median,
                transfer: class.transfer_busbw.map(|it| it.median),
            })
        };
        Self { measured: report.operations.iter().filter_map(of_class).collect() }
    }

    /// Adds to each class of a report what the baseline gives for it. `name` is that of the baseline.
    pub fn add_to(&self, report: &mut Report, name: &str) {
        let found: Vec<_> = report.operations.iter().map(|class| self.of_class(report, class)).collect();
        for (class, found) in report.operations.iter_mut().zip(found) {
            class.baseline = found;
        }
        let classes = || report.operations.iter().filter(|class| class.busbw.is_some());
        let (all, compared) = (classes().count(), classes().filter(|class| class.baseline.is_some()).count());
        let mut sentence = format!("Of {all} classes of collectives with a bandwidth, {compared} have one in {name}");
        sentence += &match compared {
            0 => format!(", which has {}.", self.described()),
            _ => ".".to_owned(),
        };
        let low = low(report);
        report.verdict.basis.extend([sentence].into_iter().chain(low));
    }

    fn of_class(&self, report: &Report, class: &OperationClass) -> Option<report::Baseline> {
        let (collective, shape, bytes) = (collective(class)?, shape(report, class)?, size(report, class)?);
        let fitting = || self.measured.iter().filter(|it| it.collective == collective && it.place.fits(&shape));
        let against = |own: Option<report::Quantiles>, curve: Curve, is_transfer| {
            let (own, busbw) = (own?.median, curve.at(bytes)?);
            (busbw > 0.0).then(|| report::Baseline { busbw, share: own / busbw, is_transfer })
        };
        let transfer = Curve::of(fitting().filter_map(|it| Some((it.bytes, it.transfer?))));
        let whole = Curve::of(fitting().map(|it| (it.bytes, it.busbw)));
        against(class.transfer_busbw, transfer, true).or_else(|| against(class.busbw, whole, false))
    }

    /// For example "AllReduce on 8 ranks (4 + 4), …".
    fn described(&self) -> String {
        let names: BTreeSet<String> = self
            .measured
            .iter()
            .map(|it| {
                let hosts = it.place.hosts().unwrap_or_default();
                let ranks: u32 = hosts.iter().sum();
                let hosts: Vec<String> = hosts.iter().map(u32::to_string).collect();
                format!("{} on {ranks} ranks ({} by host)", it.collective.name(), hosts.join(" + "))
            })
            .collect();
        const SHOWN: usize = 4;
        let more = names.len().saturating_sub(SHOWN);
        let mut names: Vec<String> = names.into_iter().take(SHOWN).collect();
        names.extend((more > 0).then(|| format!("{more} more")));
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

fn collective(class: &OperationClass) -> Option<Collective> {
    Function::of_region(&class.function)?.collective()
}

fn shape(report: &Report, class: &OperationClass) -> Option<Shape> {
    Some(Shape::of(report.communicators.get(index(class.communicator))?, &report.ranks))
}

/// The size of a class's larger buffer: the geometric mean of its smallest and its largest.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size")]
fn size(report: &Report, class: &OperationClass) -> Option<u64> {
    let ranks = report.communicators.get(index(class.communicator))?.ranks;
    let middle = (class.bytes_min as f64 * class.bytes_max as f64).sqrt() as u64;
    Some(collective(class)?.buffer_bytes(middle.clamp(class.bytes_min, class.bytes_max), ranks.into()))
}

/// A sentence on the class that loses most time against the baseline, if it loses much.
#[expect(clippy::cast_precision_loss, reason = "shares of times")]
fn low(report: &Report) -> Option<String> {
    let lost_ns = |class: &OperationClass| {
        let baseline = class.baseline.filter(|it| it.share < LOW)?;
        let transfer_ns = class.budget.transfer_ns as f64;
        let spent_ns = if baseline.is_transfer { transfer_ns } else { class.duration_ns?.total };
        Some((spent_ns * (1.0 - baseline.share), baseline))
    };
    let classes = report.operations.iter().filter_map(|class| Some((lost_ns(class)?, class)));
    let most = classes.max_by(|((a, _), _), ((b, _), _)| a.total_cmp(b));
    let ((_, baseline), class) = most.filter(|((ns, _), _)| *ns >= LEAST_TIME * report.budget.operations_ns as f64)?;
    let communicator = report.communicators.get(index(class.communicator))?;
    Some(format!(
        "{} of {} on {} has {:.0} % of the baseline's bus bandwidth, {} of {}{}.",
        class.function,
        bytes(class.bytes_max),
        communicator.name,
        baseline.share * 100.0,
        bandwidth(baseline.share * baseline.busbw),
        bandwidth(baseline.busbw),
        if baseline.is_transfer { ", without the waiting for the last rank" } else { "" }
    ))
}
