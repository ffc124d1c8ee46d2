//! Records ranges as the recorder does.

use std::ffi::CStr;
use std::sync::LazyLock;

use journal::clock::ticks;
use journal::writer::{PermanentName, PermanentText, SlotWriter};
use nccl_events::range::{Range, RangeField, RangeFields};

/// The strings of the tests, by number.
const NAMES: [&CStr; 23] = [
    c"NCCL",
    c"ncclAllReduce",
    c"ncclBroadcast",
    c"ncclGroupStart",
    c"ncclGroupEnd",
    c"ncclCommInitRankConfig",
    c"ncclCommSplit",
    c"ncclCommDestroy",
    c"ncclReduce",
    c"lib",
    c"step #",
    c"forward",
    c"backward",
    c"a",
    c"b",
    c"c",
    c"compute",
    c"here",
    c"epoch",
    c"lost",
    c"load",
    c"recursion",
    c"load > copy",
];

static TEXTS: LazyLock<Vec<PermanentText>> =
    LazyLock::new(|| (0..).zip(NAMES).map(|(number, text)| PermanentText { number, text: text.to_owned() }).collect());

pub(super) fn name(text: &CStr) -> Option<PermanentName> {
    TEXTS.iter().find(|known| *known.text == *text).map(PermanentName)
}

pub(super) fn fields(all: &[(RangeField, u64)]) -> RangeFields {
    let mut fields = RangeFields::default();
    all.iter().for_each(|&(field, value)| fields.add(field, value));
    fields
}

/// A range of a domain; `c""` is the default domain.
pub(super) fn range(domain: &CStr, text: &CStr, all: &[(RangeField, u64)]) -> Range<Option<PermanentName>> {
    let known = name(text);
    assert!(known.is_some(), "{text:?} is not among the strings");
    Range { domain: name(domain), name: known, category: None, fields: fields(all) }
}

pub(super) fn push(slot: &mut SlotWriter, level: u16, range: Range<Option<PermanentName>>) -> u64 {
    let now = ticks();
    push_at(slot, now, level, range);
    now
}

/// A push whose record comes later than the push, as that of a range which was open before recording began.
pub(super) fn push_at(slot: &mut SlotWriter, at: u64, level: u16, range: Range<Option<PermanentName>>) {
    assert!(slot.push_range(at, level, false, &range));
}

pub(super) fn pop(slot: &mut SlotWriter, level: u16, all: &[(RangeField, u64)]) {
    assert!(slot.pop_range(ticks(), level, &fields(all)));
}
