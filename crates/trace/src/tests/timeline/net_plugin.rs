//! What network plugins tell of their work for a step.

use crate::tests::stream::{Stream, proxy_op, step};
use journal::format::record::Symbol;
use nccl_events::{Body, Kind, NetData, event};
use process_model::timeline::instance::InstanceKind;
use process_model::timeline::location::{LocationKey, Owner};

const PLUGIN: Body<Symbol> = Body::NetPlugin(event::NetPlugin { id: 1 << 16 | 1, data: NetData::Opaque });

#[test]
fn parts_of_a_message_are_under_the_slot_of_their_step() {
    for (is_send, shape) in [(true, InstanceKind::PluginSend), (false, InstanceKind::PluginReceive)] {
        let mut stream = Stream::of_rank();
        stream.event(20, 0, (100, Some(200)), proxy_op(is_send));
        for number in [1_i32, 2] {
            let id = 30 + number.unsigned_abs();
            stream.event(id.into(), 20, (110, Some(190)), step(number));
        }
        stream.event(40, 31, (120, Some(150)), PLUGIN);
        stream.event(41, 31, (121, Some(140)), PLUGIN);
        stream.event(42, 31, (160, Some(170)), PLUGIN);
        // Without a step, and with something else around them.
        stream.event(43, 0, (160, Some(170)), PLUGIN);
        stream.event(44, 20, (160, Some(170)), PLUGIN);
        let built = stream.build();
        let owner = Owner::Context(0);
        let net = LocationKey::Net(owner, 0, is_send, 0);
        let step = |slot| LocationKey::Step(owner, 0, is_send, 0, slot);
        let plugin = LocationKey::Plugin(owner, 0, is_send, 0, 1);
        let rows = [(net, 0), (step(1), 0), (plugin, 0), (plugin, 1), (step(2), 0)];
        assert!(built.order.ends_with(&rows), "{:?}", built.order);
        let first = [(shape, 120, 150), (shape, 160, 170)];
        assert_eq!(built.locations[&(plugin, 0)], first);
        assert_eq!(built.locations[&(plugin, 1)], [(shape, 121, 140)]);
        assert_eq!(built.fates(Kind::NetPlugin), (5, 3, 2));
    }
}
