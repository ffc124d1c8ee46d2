//! The "simple" protocol: data in the buffer, counters beside it.

use super::{Prims, Proto, Shape, Step};

impl Prims<'_> {
    pub(super) async fn step_simple(&mut self, step: Step) {
        let (env, layout) = (self.env, self.env.layout);
        let Shape { slices, steps, .. } = self.shape;
        let element = self.math.ty.size();
        let even = step.n.div_ceil(16 * slices as usize) * 16;
        let mut slice = even.max(self.step_elements * steps as usize / 32);
        let mut shift = 0;
        for _ in 0..slices {
            slice = slice.min(step.n - shift);
            if step.recv {
                self.wait(&self.recvs, steps, 0).await;
            }
            if step.send {
                self.wait_to_send(steps).await;
                for to in &self.sends {
                    to.set_size(layout, slice * element);
                }
            }
            if env.aborted() {
                return;
            }
            if slice > 0 {
                let received = if step.recv {
                    let data = self
                        .recvs
                        .iter()
                        .map(|from| from.data(layout, Proto::Simple));
                    data.map(|at| at.bytes(slice * element)).collect()
                } else {
                    Vec::new()
                };
                let value = self.value(&step, shift, slice, received);
                self.keep(step.dst, shift, &value);
                if step.send {
                    for to in &self.sends {
                        to.data(layout, Proto::Simple).copy_in(&value);
                    }
                }
            }
            if step.recv {
                self.recvs.iter_mut().for_each(|from| from.advance(steps));
            }
            if step.send {
                self.sends.iter_mut().for_each(|to| to.advance(steps));
            }
            shift += slice;
        }
    }
}
