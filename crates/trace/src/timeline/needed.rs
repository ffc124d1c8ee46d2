//! Which regions a process needs, noted while figures are drawn: their operations are at hand then, and far away later.

use crate::tables::assembly::Operation;
use crate::timeline::by_told::ByTold;
use crate::timeline::figure::{Figure, Told};
use crate::timeline::lanes::Item;
use crate::timeline::shape::Shapes;

/// One figure of each region that is needed.
#[derive(Debug, Default)]
pub struct Needed {
    drawn: Shapes,
    fixed: Vec<Figure>,
    told: ByTold<Figure>,
    /// Whether there is one of which only the figure itself says which region it is of.
    has_others: bool,
}

impl Needed {
    /// Notes that a figure was drawn.
    #[inline]
    pub(crate) fn note(&mut self, figure: Figure) {
        if self.drawn.insert(figure.shape) {
            if figure.has_fixed_region() {
                self.fixed.push(figure);
            }
            self.has_others |= is_other(&figure);
        }
    }

    /// Notes of a figure whose operation tells its region what that tells.
    #[inline]
    pub(crate) fn note_told(&mut self, figure: Figure, operation: &Operation) {
        let told = Told::by(figure.shape, operation);
        let _known = self.told.get_or(told, || figure);
    }

    /// A figure of each region, or more. `items` is all that was drawn.
    pub(crate) fn figures<'a>(
        &'a self,
        items: impl Iterator<Item = &'a Item> + 'a,
    ) -> impl Iterator<Item = Figure> + 'a {
        let others = items.map(|item| item.figure).filter(is_other);
        let others = self.has_others.then_some(others).into_iter().flatten();
        let known = self.fixed.iter().copied().chain(self.told.all());
        known.chain(others)
    }
}

/// Whether it takes more than its shape, or kind and detail of its operation, to tell the region.
fn is_other(figure: &Figure) -> bool {
    !figure.has_fixed_region() && !figure.is_told_by_operation()
}
