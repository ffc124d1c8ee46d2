//! Records about NVTX ranges in a journal.

use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::range::{Range, RangeCount, RangeField, RangeFields, RangeRecord};

use super::value::{List, Moment, Value};

pub(crate) const KIND: &str = "Range";

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) when: Moment,
    /// The recorder's id of a started range; 0 for pushed ranges and marks.
    pub(crate) id: u64,
    pub(crate) record: RangeRecord<Symbol>,
}

impl Entry {
    pub(crate) const fn kind(&self) -> &'static str {
        match self.record {
            RangeRecord::Push { .. } => "push",
            RangeRecord::Pop { .. } => "pop",
            RangeRecord::Mark(_) => "mark",
            RangeRecord::Start { .. } => "start",
            RangeRecord::End { .. } => "end",
            RangeRecord::Counts(_) => "counts",
        }
    }

    /// Whether people see the record, too: running totals are for programs only.
    pub(crate) const fn is_for_people(&self) -> bool {
        !matches!(self.record, RangeRecord::Counts(_))
    }

    pub(crate) fn details<'a>(&self, symbols: &'a Symbols) -> List<'a> {
        let mut list = List::new();
        match &self.record {
            RangeRecord::Push { level, is_repeated, range } => {
                list.push(("level", (*level).into()));
                repeated(*is_repeated, &mut list);
                named(range, symbols, &mut list);
            }
            RangeRecord::Start { is_repeated, range } => {
                repeated(*is_repeated, &mut list);
                named(range, symbols, &mut list);
            }
            RangeRecord::Mark(range) => named(range, symbols, &mut list),
            RangeRecord::Pop { level, fields: numbers } => {
                list.push(("level", (*level).into()));
                fields(numbers, &mut list);
            }
            RangeRecord::End { fields: numbers } => fields(numbers, &mut list),
            RangeRecord::Counts(totals) => {
                let name = |count| match count {
                    RangeCount::OtherNames => "otherNames",
                    RangeCount::TooDeep => "tooDeep",
                    RangeCount::UnbalancedPops => "unbalancedPops",
                    RangeCount::Lost => "lost",
                };
                list.extend(
                    RangeCount::ALL.into_iter().zip(totals).map(|(count, total)| (name(count), (*total).into())),
                );
            }
        }
        list
    }
}

fn repeated(is_repeated: bool, list: &mut List<'_>) {
    if is_repeated {
        list.push(("isRepeated", true.into()));
    }
}

fn named<'a>(range: &Range<Symbol>, symbols: &'a Symbols, list: &mut List<'a>) {
    for (label, name) in [("domain", range.domain), ("name", range.name), ("categoryName", range.category)] {
        if name != Symbol::NONE {
            list.push((label, symbols.text(name).into()));
        }
    }
    fields(&range.fields, list);
}

fn fields(fields: &RangeFields, list: &mut List<'_>) {
    list.extend(fields.iter().map(|(field, number)| {
        let value = match field {
            RangeField::Signed | RangeField::SplitColor | RangeField::SplitKey => Value::Signed(number.cast_signed()),
            RangeField::Float => Value::Float(f64::from_bits(number)),
            _ => Value::Unsigned(number),
        };
        (field.name(), value)
    }));
}
