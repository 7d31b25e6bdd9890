// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers about what the tables hold, for a control plane that compares it with what it has sent.

use feed::audit::{Answer, Part, Question, Row, SCANNED_MAX, digest_of};

use super::*;

impl Sides {
    pub(super) fn audit(&self, state: &State, question: &Question) -> Answer {
        let mut answer = Answer::new(question.token);
        match question.part {
            Part::Four => self.four.iter().for_each(|side| side.list(&state.world, question, &mut answer)),
            Part::Six => self.six.iter().for_each(|side| side.list(&state.world, question, &mut answer)),
            Part::Objects => self.list_objects(state, question, &mut answer),
            Part::Trees4 | Part::Trees6 => {
                let n = usize::from(question.part == Part::Trees6);
                let groups = self.groups[n].iter();
                groups.for_each(|groups| groups.list(&state.groups[n], &state.world, question, &mut answer));
            }
        }
        answer
    }

    fn list_objects(&self, state: &State, question: &Question, answer: &mut Answer) {
        let State { world, four, six, .. } = state;
        let range = question.from..=question.to;
        let objects = world.objects.iter().filter(|(id, _)| range.contains(&u64::from(**id)));
        for (scanned, (id, object)) in objects.enumerate() {
            if scanned == SCANNED_MAX {
                answer.has_more = true;
                return;
            }
            let is_true = self.four.as_ref().is_none_or(|side| side.holds(world, four, *id, object))
                && self.six.as_ref().is_none_or(|side| side.holds(world, six, *id, object));
            answer.add(Row::Object { id: *id, digest: digest_of(object), is_true }, question.lists);
        }
    }
}

impl<F: Family> Side<F> {
    fn list(&self, world: &World, question: &Question, answer: &mut Answer) {
        let found = |table, prefix, id| {
            let table = world.table_of_feed(table);
            let prefix = F::fed_prefix(prefix);
            answer.add(Row::Route { table, prefix, id }, question.lists);
        };
        let has_more =
            self.routes.read(|routes| routes.fed_range(question.from, question.to, SCANNED_MAX, found));
        answer.has_more |= has_more;
    }

    /// Whether the table of next hops has an object as it was sent.
    fn holds(&self, world: &World, half: &Half<F>, id: u32, object: &Object) -> bool {
        let members = || self.members(object, world, &mut Refused::default(), &mut Vec::new());
        !half.known.contains(&id) || self.routes.read(|routes| routes.fed_holds(id, &members()))
    }
}
