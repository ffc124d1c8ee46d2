//! Whether chance explains that some ranks take longer than others: three tests that know that noise lasts.

use std::sync::OnceLock;

use crate::statistics::numeric::{median, quantile};
use crate::units::real;

/// Own times of ranks: rows are windows, columns ranks. NaN: not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: usize,
    pub(crate) values: Vec<f64>,
}

impl Table {
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns, values: Vec::new() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub(crate) fn column(&self, column: usize) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().skip(column).step_by(self.columns.max(1)).copied()
    }

    /// The rows in which at least half of the values are known, two at least.
    fn known_rows(&self) -> Self {
        let mut found = Self::new(self.columns);
        for row in (0..self.rows()).map(|row| self.row(row)) {
            let known = row.iter().filter(|value| !value.is_nan()).count();
            if known >= 2 && 2 * known >= self.columns {
                found.values.extend_from_slice(row);
            }
        }
        found
    }

    /// What each value exceeds the median of the columns `of` in its row by; of two columns, the mean.
    pub(crate) fn excess(&self, of: &[usize]) -> Self {
        let mut found = Self::new(self.columns);
        for row in (0..self.rows()).map(|row| self.row(row)) {
            let mut known: Vec<f64> = of.iter().map(|column| row[*column]).filter(|value| !value.is_nan()).collect();
            let middle = if known.is_empty() { f64::NAN } else { median(&mut known) };
            found.values.extend(row.iter().map(|value| value - middle));
        }
        found
    }

    /// What each value exceeds the median of the others in its row by.
    pub(crate) fn excess_over_others(&self) -> Self {
        let mut found = Self::new(self.columns);
        for row in (0..self.rows()).map(|row| self.row(row)) {
            let mut known: Vec<f64> = row.iter().copied().filter(|value| !value.is_nan()).collect();
            known.sort_unstable_by(f64::total_cmp);
            found.values.extend(row.iter().map(|value| {
                let place = known.partition_point(|other| other < value);
                let other = |at: usize| known.get(at + usize::from(at >= place)).copied().unwrap_or(f64::NAN);
                let others = known.len().saturating_sub(1);
                value - f64::midpoint(other(others.saturating_sub(1) / 2), other(others / 2))
            }));
        }
        found
    }

    pub(crate) fn of_columns(&self, columns: &[usize]) -> Self {
        let mut found = Self::new(columns.len());
        for row in (0..self.rows()).map(|row| self.row(row)) {
            found.values.extend(columns.iter().map(|column| row[*column]));
        }
        found
    }
}

/// A quantile of the known values; NaN if none is.
fn quantile_of(values: impl Iterator<Item = f64>, q: f64) -> f64 {
    let mut known: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    known.sort_unstable_by(f64::total_cmp);
    if known.is_empty() { f64::NAN } else { quantile(&known, q) }
}

/// The standard deviation, with `less` degrees of freedom taken off.
pub(crate) fn deviation(values: &[f64], less: usize) -> f64 {
    let count = real(values.len() as u64);
    let mean = values.iter().sum::<f64>() / count;
    let sum: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (sum / real(values.len().saturating_sub(less).max(1) as u64)).sqrt()
}

/// The longest lag at which noise is compared with itself.
const MOST_LAGS: usize = 200;
/// The most windows of a step of the program.
const MOST_PERIOD: usize = 16;
/// The most values of which the memory of noise is found: a long series shows it in a part.
const MOST_VALUES: usize = 1 << 16;

/// What is left of columns without their means.
struct Noise {
    columns: usize,
    rows: usize,
    values: Vec<f64>,
    variance: f64,
}

impl Noise {
    /// `None` if there are too few rows, or all are equal.
    fn new(table: &Table) -> Option<Self> {
        let columns = table.columns;
        let rows = table.rows().min((MOST_VALUES / columns.max(1)).max(8));
        if rows < 8 || columns == 0 {
            return None;
        }
        let mut values: Vec<f64> = table.values[..rows * columns].to_vec();
        for column in 0..columns {
            let known = || (0..rows).map(|row| table.row(row)[column]).filter(|value| !value.is_nan());
            let mean = known().sum::<f64>() / real(known().count().max(1) as u64);
            for row in 0..rows {
                let value = &mut values[row * columns + column];
                *value = if value.is_nan() { 0.0 } else { *value - mean };
            }
        }
        let limit = quantile_of(values.iter().map(|value| value.abs()), 0.98);
        let limit = if limit > 0.0 { limit } else { 1.0 };
        values.iter_mut().for_each(|value| *value = value.clamp(-limit, limit));
        let variance = values.iter().map(|value| value * value).sum::<f64>() / real(values.len() as u64);
        (variance > 0.0).then_some(Self { columns, rows, values, variance })
    }

    fn correlation(&self, lag: usize) -> f64 {
        let count = (self.rows - lag) * self.columns;
        let pairs = self.values[..count].iter().zip(&self.values[lag * self.columns..]);
        pairs.map(|(one, other)| one * other).sum::<f64>() / real(count as u64) / self.variance
    }

    /// The windows of a step of the program, if they are so different that each of them is like the same one of the
    /// next step rather than like the next window; else 1.
    fn period(&self) -> usize {
        let chance = 1.0 / real((self.rows * self.columns) as u64).sqrt();
        let of_next = self.correlation(1).max(0.0);
        (2..=MOST_PERIOD.min(self.rows / 8)).find(|lag| self.correlation(*lag) > of_next + 4.0 * chance).unwrap_or(1)
    }
}

/// A table whose rows are the sums of each `rows` rows.
fn folded(table: &Table, rows: usize) -> Table {
    let mut found = Table::new(table.columns);
    let known = |value: f64| if value.is_nan() { 0.0 } else { value };
    for first in (0..(table.rows() / rows) * rows).step_by(rows) {
        let sum = |column: usize| (first..first + rows).map(|row| known(table.row(row)[column])).sum::<f64>();
        found.values.extend((0..table.columns).map(sum));
    }
    found
}

/// The windows of a step of the program, and for how many steps noise lasts: 1 + 2 Σ ρ, with ρ the autocorrelations of
/// the columns. Subtracting a column's mean lowers each ρ by about τ ÷ T: that is corrected.
pub(crate) fn memory(table: &Table) -> (usize, f64) {
    let Some(noise) = Noise::new(table) else { return (1, 1.0) };
    let period = noise.period();
    let noise = if period > 1 { Noise::new(&folded(table, period)) } else { Some(noise) };
    let Some(noise) = noise else { return (period, 1.0) };
    let last = (noise.rows / 2).min(MOST_LAGS);
    let (all, count) = (real(noise.rows as u64), real(noise.values.len() as u64));
    // Mostly a few lags suffice.
    let mut correlations: Vec<f64> = Vec::new();
    let mut memory: f64 = 1.0;
    for _ in 0..20 {
        let chance = 2.0 / (count / memory.max(1.0)).sqrt();
        let (mut sum, mut lag) = (1.0, 1);
        while lag < last {
            if correlations.len() < lag {
                correlations.push(noise.correlation(lag));
            }
            // Subtracting the mean hid a part.
            let correlation = correlations[lag - 1];
            let corrected = correlation + (1.0 - correlation) * (memory / all).min(0.9);
            if corrected < chance {
                break;
            }
            (sum, lag) = (sum + 2.0 * corrected, lag + 1);
        }
        if (sum - memory).abs() < 0.05 {
            break;
        }
        // A long memory raises `chance`, and the next sum is short. Halving the step keeps it from oscillating.
        memory = f64::midpoint(memory, sum.min(all));
    }
    (period, memory)
}

/// Below this, chance does not explain that a rank is late.
pub(crate) const IMPROBABLE: f64 = 1e-3;
/// The same for the test of what is steady, whose null is known less well.
const STEADY: f64 = 2e-4;
/// How far ranks' typical own times differ by design, as a part of their own time, and the weight of that beside what
/// the ranks of a job show, in ranks. Few ranks alone say little of how far they differ.
const USUAL_SPREAD: f64 = 0.1;
const USUAL_WEIGHT: usize = 8;
/// Below this, a rank may be late.
pub(crate) const UNLIKELY: f64 = 0.05;
/// A rank is late in four of five windows if the quantile of this order of its excess is.
const ORDER: f64 = 0.2;

/// The test that found a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// It takes longer in four of five windows.
    Steady,
    /// Long times fall on it more often than on others.
    Exchange,
    /// It takes turns with another one.
    Turns,
}

/// A column that may be late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspicion {
    pub(crate) column: usize,
    pub(crate) p_value: f64,
    pub(crate) test: Test,
}

/// The columns that chance does not explain, and those that it hardly explains. `is_timed`: windows are blocks of time.
pub(crate) fn suspicions(table: &Table, is_timed: bool) -> (Vec<Suspicion>, Vec<Suspicion>) {
    let table = table.known_rows();
    let (rows, columns) = (table.rows(), table.columns);
    let (mut found, mut perhaps): (Vec<Suspicion>, Vec<Suspicion>) = (Vec::new(), Vec::new());
    if rows < 2 {
        return (found, perhaps);
    }
    let all: Vec<usize> = (0..columns).collect();
    let excess = table.excess(&all);
    let typical: Vec<f64> = all.iter().map(|column| quantile_of(excess.column(*column), ORDER)).collect();
    let mut sorted = all.clone();
    nccl_events::sort::sort_by_key(&mut sorted, |column| Ordered(typical[*column]));
    if columns >= 2 {
        let known: Vec<f64> = table.values.iter().copied().filter(|value| !value.is_nan()).collect();
        let own = known.iter().sum::<f64>() / real(known.len() as u64);
        let (p_value, upper) = steady(&excess, &typical, &sorted, own);
        let late = sorted[columns - upper..].iter();
        let late = late.map(|column| Suspicion { column: *column, p_value, test: Test::Steady });
        match p_value {
            ..STEADY if rows >= 4 => found.extend(late),
            ..UNLIKELY if rows >= 8 => perhaps.extend(late),
            _ => {}
        }
    }
    if !(is_timed && columns >= 4) {
        let mut is_out = vec![false; columns];
        found.iter().for_each(|late| is_out[late.column] = true);
        for (column, p_value) in exchange(&excess, &mut is_out, None) {
            let late = Suspicion { column, p_value, test: Test::Exchange };
            match p_value {
                ..IMPROBABLE => {
                    found.retain(|known| known.column != column);
                    found.push(late);
                }
                ..UNLIKELY if perhaps.iter().all(|known| known.column != column) => perhaps.push(late),
                _ => {}
            }
        }
        if columns >= 6 && found.is_empty() && rows >= 8 {
            found.extend(turns(&excess, &sorted));
        }
    }
    perhaps.retain(|late| found.iter().all(|known| known.column != late.column));
    (found, perhaps)
}

/// A value that is compared as numbers are.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Half of how far a quantile of a column strays by chance: columns do not agree better than that but by chance.
fn strays(excess: &Table) -> f64 {
    let known = || excess.values.iter().copied().filter(|value| !value.is_nan());
    let (low, high) = (quantile_of(known(), 0.02), quantile_of(known(), 0.98));
    let clipped: Vec<f64> = known().map(|value| value.clamp(low, high)).collect();
    let (period, memory) = memory(excess);
    0.7 * deviation(&clipped, 0) * (real(period as u64) * memory / real(excess.rows().max(1) as u64)).sqrt()
}

/// How far the typical values of the upper columns are above those of the others, for the split that chance explains
/// least: its probability, and how many columns are above.
fn steady(excess: &Table, typical: &[f64], sorted: &[usize], own: f64) -> (f64, usize) {
    let columns = sorted.len();
    let least = strays(&excess.of_columns(&sorted[..(columns / 2).max(2)])).max(1.0);
    let mut best = (1.0, 0);
    for upper in 1..=(columns / 2).max(columns.saturating_sub(3)) {
        let lower: Vec<f64> = sorted[..columns - upper].iter().map(|column| typical[*column]).collect();
        let distance = typical[sorted[columns - upper]] - median(&mut lower.clone());
        let spread = deviation(&lower, 1);
        let splits = real(columns.saturating_sub(3).max(1) as u64);
        if lower.len() > 2 {
            let p_value = gap_probability(columns, upper, distance / spread.max(least)) * splits;
            best = if p_value < best.0 { (p_value, upper) } else { best };
        }
        // With the usual spread beside that of these ranks, as if there were more of them.
        let (known, usual) = (real(lower.len() as u64 - 1), real(USUAL_WEIGHT as u64));
        let variance = known * spread.powi(2) + usual * (USUAL_SPREAD * own).powi(2);
        let pooled = (variance / (known + usual)).sqrt().max(least);
        let p_value = gap_probability(columns + USUAL_WEIGHT, upper, distance / pooled) * splits;
        best = if p_value < best.0 { (p_value, upper) } else { best };
    }
    best
}

/// Two columns that relieve each other: the later one of both in each window, against that of other pairs.
fn turns(excess: &Table, sorted: &[usize]) -> Vec<Suspicion> {
    let columns = excess.columns;
    let sum = |column: usize| excess.column(column).filter(|value| *value > 0.0).sum::<f64>();
    let mut by_excess: Vec<usize> = (0..columns).collect();
    nccl_events::sort::sort_by_key(&mut by_excess, |column| Ordered(-sum(*column)));
    let top = &by_excess[..2];
    let others: Vec<usize> = sorted.iter().copied().filter(|column| !top.contains(column)).collect();
    let later = |pair: &[usize]| {
        let of_row = |row: usize| pair.iter().map(|column| excess.row(row)[*column]).fold(f64::NAN, f64::max);
        quantile_of((0..excess.rows()).map(of_row), ORDER)
    };
    let pairs: Vec<f64> = others.chunks_exact(2).map(later).collect();
    if pairs.len() < 3 {
        return Vec::new();
    }
    let spread = deviation(&pairs, 1).max(strays(&excess.of_columns(&others))).max(1.0);
    let distance = later(top) - median(&mut pairs.clone());
    let count = real(columns as u64);
    let p_value = gap_probability(pairs.len() + 1, 1, distance / spread) * count * (count - 1.0) / 2.0;
    let late = top.iter().map(|column| Suspicion { column: *column, p_value, test: Test::Turns });
    if p_value < IMPROBABLE { late.collect() } else { Vec::new() }
}

const CUTS: [f64; 3] = [0.5, 0.9, 1.0];
/// The most rounds in which columns that were found are taken out.
const ROUNDS: usize = 12;
/// The columns with the largest sums are tested in each round.
const TESTED: usize = 4;
const MOST_BLOCKS: usize = 4096;

/// The columns on which long values fall, with the probability that they do by chance: in each block, each column that
/// is not out may have drawn each value. A block is as long as the memory of the other columns.
///
/// Two columns that are slow from a time on look like noise with a long memory. With `least_calm`, the memory is
/// therefore that of the columns with the smallest sums, if there are as many; this is wrong for noise in spells.
pub(crate) fn exchange(excess: &Table, is_out: &mut [bool], least_calm: Option<usize>) -> Vec<(usize, f64)> {
    let (rows, columns) = (excess.rows(), excess.columns);
    let mut found: Vec<(usize, f64)> = Vec::new();
    for _ in 0..ROUNDS {
        let left: Vec<usize> = (0..columns).filter(|column| !is_out[*column]).collect();
        if left.len() < 2 {
            break;
        }
        let sum = |column: usize| excess.column(column).filter(|value| *value > 0.0).sum::<f64>();
        let mut tested = left.clone();
        nccl_events::sort::sort_by_key(&mut tested, |column| Ordered(-sum(*column)));
        tested.truncate(TESTED);
        let mut is_new = false;
        let top = &tested[..tested.len().min(2 * left.len() / 3)];
        let calm: Vec<usize> = left.iter().copied().filter(|column| !top.contains(column)).collect();
        for column in tested {
            let others = left.iter().copied().filter(|other| *other != column).collect();
            let others: Vec<usize> =
                if least_calm.is_some_and(|least| calm.len() >= least) { calm.clone() } else { others };
            let (period, memory) = memory(&excess.of_columns(if columns > 2 { &others } else { &left }));
            let length = if memory > 1.5 { 2.0 * memory * (1.0 + 2.0 / real(others.len().max(1) as u64)) } else { 1.0 };
            let length = (period * ceil(length)).max(rows.div_ceil(MOST_BLOCKS)).max(1);
            if rows / length < 2 {
                continue;
            }
            let blocks = blocks(excess, length, &left);
            let least = CUTS.iter().map(|cut| log_probability(&blocks, is_out, *cut, column)).fold(0.0, f64::min);
            let p_value = (least.exp() * real(CUTS.len() as u64 * columns as u64)).min(1.0);
            found.retain(|(known, _)| *known != column);
            found.push((column, p_value));
            if p_value < IMPROBABLE {
                (is_out[column], is_new) = (true, true);
            }
        }
        if !is_new {
            break;
        }
    }
    found
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length of a few thousand")]
fn ceil(value: f64) -> usize {
    value.ceil().min(1e9) as usize
}

/// The means of blocks, above the lower quartile of the columns `of` in the block.
fn blocks(excess: &Table, length: usize, of: &[usize]) -> Table {
    let mut found = Table::new(excess.columns);
    for block in 0..excess.rows() / length {
        let rows = block * length..(block + 1) * length;
        let known = |value: f64| if value.is_nan() { 0.0 } else { value };
        let mean =
            |column: usize| rows.clone().map(|row| known(excess.row(row)[column])).sum::<f64>() / real(length as u64);
        let means: Vec<f64> = (0..excess.columns).map(mean).collect();
        let quartile = quantile_of(of.iter().map(|column| means[*column]), 0.25);
        found.values.extend(means.into_iter().map(|mean| (mean - quartile).max(0.0)));
    }
    found
}

/// The steps of a tilt: a quarter of a power of two each.
const LOWEST_TILT: i32 = -20;
const HIGHEST_TILT: i32 = 44;

/// The logarithm of the probability that a column has its sum or more by chance, if each column that is not out draws
/// one of each block's values. Values are cut at a quantile of the blocks' largest ones.
fn log_probability(blocks: &Table, is_out: &[bool], cut: f64, column: usize) -> f64 {
    let kept: Vec<usize> = (0..blocks.columns).filter(|column| !is_out[*column]).collect();
    let rows = || (0..blocks.rows()).map(|row| blocks.row(row));
    let largest = rows().map(|row| kept.iter().map(|column| row[*column]).fold(f64::MIN, f64::max));
    let cut = quantile_of(largest, cut);
    // NaN: there is no block.
    if cut.is_nan() || cut <= 0.0 {
        return 0.0;
    }
    let scaled: Vec<f64> = rows().flat_map(|row| kept.iter().map(|column| row[*column].min(cut) / cut)).collect();
    let sum: f64 = blocks.column(column).map(|value| value.min(cut) / cut).sum();
    let log = |step: i32| {
        let tilt = (f64::from(step) / 4.0).exp2();
        let (mut cumulant, mut mean, mut variance) = (0.0, 0.0, 0.0);
        for values in scaled.chunks_exact(kept.len()) {
            let most = values.iter().copied().fold(f64::MIN, f64::max);
            let (mut weights, mut first, mut second) = (0.0, 0.0, 0.0);
            for value in values {
                let weight = (tilt * (value - most)).exp();
                weights += weight;
                first += weight * value;
                second += weight * value * value;
            }
            let block_mean = first / weights;
            cumulant += (weights / real(kept.len() as u64)).ln() + tilt * most;
            mean += block_mean;
            variance += second / weights - block_mean * block_mean;
        }
        let variance = f64::max(variance, 0.0);
        let bound = cumulant - tilt * sum;
        // The correction holds at the tilt whose mean is the observed sum; elsewhere the plain bound does.
        let is_near = (mean - sum).abs() < 0.35 * variance.max(1e-12).sqrt() + 1e-9;
        let correction = (tilt * (std::f64::consts::TAU * variance).sqrt()).max(1.0).ln();
        if is_near { bound - correction } else { bound }
    };
    // The bound is convex in the tilt: the least of all is near the least of each fourth.
    let coarse = (LOWEST_TILT..=HIGHEST_TILT).step_by(4).map(|step| (log(step), step));
    let (least, near) = coarse.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    (near - 3..near + 4).filter(|step| *step != near).map(log).fold(least.min(0.0), f64::min)
}

/// The table of the null ends at this number of columns. More columns use its last rows.
const MOST_COLUMNS: usize = 24;
/// The probabilities of the quantiles in the table of the null.
const PROBABILITIES: [f64; 9] = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001];

/// The null of *steady*: lines of the number of columns, of those above, and the quantiles. A test makes it.
const NULLS: &str = include_str!("steady.txt");

type Null = ((usize, usize), [f64; PROBABILITIES.len()]);

fn nulls() -> &'static [Null] {
    static FOUND: OnceLock<Vec<Null>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let key = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let mut quantiles = [0.0; PROBABILITIES.len()];
            for quantile in &mut quantiles {
                *quantile = words.next()?.parse().ok()?;
            }
            Some((key, quantiles))
        };
        NULLS.lines().filter_map(line).collect()
    })
}

/// The probability that, of `count` normal values, the `upper` largest are all at least `distance` above the median of
/// the others, in standard deviations of the others.
fn gap_probability(count: usize, upper: usize, distance: f64) -> f64 {
    let few = count.min(MOST_COLUMNS);
    let key = (few, if count > MOST_COLUMNS { upper.min(few - 2) } else { upper });
    let Ok(at) = nulls().binary_search_by_key(&key, |(key, _)| *key) else { return 1.0 };
    let (_, quantiles) = &nulls()[at];
    let next = quantiles.partition_point(|quantile| *quantile < distance);
    let Some(behind) = next.checked_sub(1) else { return 1.0 };
    let Some(quantile) = quantiles.get(next) else {
        // Beyond the table, the tail falls at least as a power of the degrees of freedom left.
        let freedom = few.saturating_sub(key.1 + 1).max(1);
        return PROBABILITIES[behind] * (distance / quantiles[behind]).powf(-real(freedom as u64));
    };
    let part = (distance - quantiles[behind]) / (quantile - quantiles[behind]);
    (PROBABILITIES[behind].ln() * (1.0 - part) + PROBABILITIES[next].ln() * part).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lateness::simulation::Random;

    /// The sorted statistics of normal values: see [`gap_probability`].
    fn simulated(random: &mut Random, count: usize, upper: usize, runs: usize) -> Vec<f64> {
        let mut found: Vec<f64> = (0..runs)
            .map(|_| {
                let mut values: Vec<f64> = (0..count).map(|_| random.normal()).collect();
                values.sort_unstable_by(f64::total_cmp);
                let (lower, above) = values.split_at(count - upper);
                (above[0] - quantile(lower, 0.5)) / deviation(lower, 1)
            })
            .collect();
        found.sort_unstable_by(f64::total_cmp);
        found
    }

    fn quantiles(sorted: &[f64]) -> Vec<f64> {
        PROBABILITIES.iter().map(|probability| quantile(sorted, 1.0 - probability)).collect()
    }

    /// `UPDATE_DOCS=1` makes the table anew, which takes minutes.
    #[test]
    fn the_null_is_that_of_normal_values() {
        let mut random = Random::new(7);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            let mut text = String::new();
            for count in 4..=MOST_COLUMNS {
                for upper in 1..=count - 2 {
                    let found = quantiles(&simulated(&mut random, count, upper, 200_000));
                    let found: Vec<String> = found.iter().map(|value| format!("{value:.3}")).collect();
                    text += &format!("{count} {upper} {}\n", found.join(" "));
                }
            }
            std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lateness/steady.txt"), text).expect("written");
            return;
        }
        for (count, upper) in [(4, 1), (8, 1), (8, 3), (16, 1), (24, 8)] {
            let found = simulated(&mut random, count, upper, 20_000);
            for probability in [0.1, 0.02, 0.005] {
                let said = gap_probability(count, upper, quantile(&found, 1.0 - probability));
                assert!((0.6..1.6).contains(&(said / probability)), "{count} {upper}: {said} of {probability}");
            }
        }
        assert!(gap_probability(8, 1, 40.0) < 1e-6 && gap_probability(8, 1, 0.0) > 0.5);
    }
}
