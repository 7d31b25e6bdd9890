// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the user sees and chooses, and what keys do to it. Knows no terminal and no time.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::look::Look;
use super::sheet::{self, Sheet};

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Elements,
    Cores,
    Ports,
    Drops,
    Tables,
    Moves,
}

impl Page {
    pub(super) const ALL: [Page; 6] =
        [Page::Elements, Page::Cores, Page::Ports, Page::Drops, Page::Tables, Page::Moves];

    pub(super) fn title(self) -> &'static str {
        match self {
            Page::Elements => "elements",
            Page::Cores => "cores",
            Page::Ports => "ports",
            Page::Drops => "drops",
            Page::Tables => "tables",
            Page::Moves => "moves",
        }
    }

    /// What there is on it.
    fn sheets(self, look: &Look) -> Vec<Sheet> {
        match self {
            Page::Elements => vec![sheet::elements(look)],
            Page::Cores => vec![sheet::cores(look)],
            Page::Ports => vec![sheet::ports(look), sheet::queues(look)],
            Page::Drops => vec![sheet::drops(look)],
            Page::Tables => vec![sheet::tables(look)],
            Page::Moves => Vec::new(),
        }
    }
}

/// What is to be done in addition to drawing anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    /// Look twice as often, or half as often.
    Faster,
    Slower,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) page: Page,
    /// By page: the column that rows are sorted by, if any, and whether the other way round.
    sorted: [(Option<usize>, bool); Page::ALL.len()],
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    pub(super) helps: bool,
    pub(super) holds: bool,
    /// The first row that is shown.
    pub(super) first: usize,
    /// Rows that were shown last, and that there are.
    pub(super) shown: (usize, usize),
    look: Option<Look>,
    /// A message that is shown instead of the page, or in addition to it.
    pub(super) message: String,
}

impl App {
    pub(super) fn new(filter: &str) -> App {
        let mut sorted = [(None, false); Page::ALL.len()];
        // The busiest elements come first.
        sorted[0].0 = Some(sheet::BUSY);
        App {
            page: Page::Elements,
            sorted,
            filter: filter.to_owned(),
            is_typing: false,
            helps: false,
            holds: false,
            first: 0,
            shown: (0, 0),
            look: None,
            message: String::new(),
        }
    }

    /// Another look has been taken.
    pub(super) fn take(&mut self, look: Look) {
        self.message.clear();
        if !self.holds {
            self.look = Some(look);
        }
    }

    /// The router is gone.
    pub(super) fn forget(&mut self, message: String) {
        self.look = None;
        self.message = message;
    }

    /// What was seen last.
    pub(super) fn look(&self) -> Option<&Look> {
        self.look.as_ref()
    }

    /// The present page's tables, sorted and filtered.
    pub(super) fn sheets(&self) -> Vec<Sheet> {
        let Some(look) = &self.look else { return Vec::new() };
        let mut look = look.clone();
        look.retain(&self.filter);
        let mut sheets = self.page.sheets(&look);
        let (column, reversed) = self.sorted();
        match column {
            Some(column) => sheets.iter_mut().for_each(|sheet| sheet.sort(column, reversed)),
            None if reversed => sheets.iter_mut().for_each(|sheet| sheet.rows.reverse()),
            None => {}
        }
        sheets
    }

    /// The column that the present page is sorted by, and whether the other way round.
    pub(super) fn sorted(&self) -> (Option<usize>, bool) {
        self.sorted[self.at()]
    }

    fn at(&self) -> usize {
        Page::ALL.iter().position(|page| *page == self.page).unwrap_or(0)
    }

    fn turn_to(&mut self, at: usize) {
        (self.page, self.first) = (Page::ALL[at % Page::ALL.len()], 0);
    }

    /// The next column to sort by, or the one before; in between, as configured.
    fn sort_by_next(&mut self, back: bool) {
        let at = self.at();
        let columns = self.sheets().iter().map(|sheet| sheet.columns.len()).max().unwrap_or(0);
        let sorted = &mut self.sorted[at].0;
        *sorted = match (*sorted, back) {
            (None, false) => (columns > 0).then_some(0),
            (None, true) => columns.checked_sub(1),
            (Some(column), false) => Some(column + 1).filter(|next| *next < columns),
            (Some(column), true) => column.checked_sub(1),
        };
    }

    fn scroll(&mut self, by: isize) {
        let (shown, all) = self.shown;
        self.first = self.first.saturating_add_signed(by).min(all.saturating_sub(shown));
    }

    /// A key was pressed.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c')) {
            return Wish::Quit;
        }
        if self.is_typing {
            self.type_filter(key.code, control);
            return Wish::Nothing;
        }
        if std::mem::take(&mut self.helps) {
            return Wish::Nothing;
        }
        let page = isize::try_from(self.shown.0.max(1)).unwrap_or(1);
        match key.code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Char('+') => return Wish::Faster,
            KeyCode::Char('-') => return Wish::Slower,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.helps = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.holds = !self.holds,
            KeyCode::Char('s') => self.sort_by_next(false),
            KeyCode::Char('S') => self.sort_by_next(true),
            KeyCode::Char('r') => {
                let at = self.at();
                self.sorted[at].1 = !self.sorted[at].1;
            }
            KeyCode::Char(digit @ '1'..='6') => self.turn_to(digit as usize - '1' as usize),
            KeyCode::Tab | KeyCode::Right => self.turn_to(self.at() + 1),
            KeyCode::BackTab | KeyCode::Left => self.turn_to(self.at() + Page::ALL.len() - 1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageUp => self.scroll(-page),
            KeyCode::PageDown => self.scroll(page),
            KeyCode::Home | KeyCode::Char('g') => self.first = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll(isize::MAX),
            _ => {}
        }
        Wish::Nothing
    }

    fn type_filter(&mut self, key: KeyCode, control: bool) {
        self.first = 0;
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char('u') if control => self.filter.clear(),
            KeyCode::Char(c) if !control => self.filter.push(c),
            _ => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::look::tests::example;
    use super::*;

    pub(crate) fn press(app: &mut App, keys: &[KeyCode]) -> Wish {
        keys.iter().fold(Wish::Nothing, |_, key| app.press(KeyEvent::new(*key, KeyModifiers::NONE)))
    }

    fn names(app: &App) -> Vec<String> {
        app.sheets().iter().flat_map(|sheet| sheet.rows.iter().map(|row| row[0].text.clone())).collect()
    }

    #[test]
    fn pages_turn() {
        let mut app = App::new("");
        press(&mut app, &[KeyCode::Tab, KeyCode::Right]);
        assert_eq!(app.page, Page::Ports);
        press(&mut app, &[KeyCode::Char('1'), KeyCode::BackTab]);
        assert_eq!(app.page, Page::Moves);
        press(&mut app, &[KeyCode::Tab]);
        assert_eq!(app.page, Page::Elements);
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        let mut app = App::new("");
        app.take(example());
        let busiest = |app: &App| {
            app.look().unwrap().elements.iter().map(|e| e.busy.unwrap_or(-1.0)).fold(-1.0, f64::max)
        };
        let first = app.sheets()[0].rows[0][sheet::BUSY].key.clone();
        assert_eq!(
            (app.sheets()[0].columns[sheet::BUSY].title, first),
            ("busy", sheet::SortKey::Number(busiest(&app)))
        );
        app.sorted[0].0 = None;
        assert_eq!(names(&app), ["src", "q", "rt", "in"]);
        press(&mut app, &[KeyCode::Char('s')]);
        assert_eq!(names(&app), ["in", "q", "rt", "src"]);
        press(&mut app, &[KeyCode::Char('r')]);
        assert_eq!(names(&app), ["src", "rt", "q", "in"]);
        press(&mut app, &[KeyCode::Char('S')]);
        assert_eq!((app.sorted(), names(&app)[0].as_str()), ((None, true), "in"));
        // Another page has its own order.
        press(&mut app, &[KeyCode::Char('3')]);
        assert_eq!((app.sorted(), names(&app)), ((None, false), vec!["in".to_owned(), "q".to_owned()]));
        press(&mut app, &[KeyCode::Char('1'), KeyCode::Char('/'), KeyCode::Char('q'), KeyCode::Char('x')]);
        assert!(app.is_typing && names(&app).is_empty(), "q is a letter here");
        press(&mut app, &[KeyCode::Backspace, KeyCode::Enter]);
        assert_eq!((app.is_typing, names(&app)), (false, vec!["q".to_owned()]));
        press(&mut app, &[KeyCode::Esc]);
        assert_eq!(names(&app).len(), 4);
    }

    #[test]
    fn what_is_held_stays() {
        let mut app = App::new("");
        app.take(example());
        press(&mut app, &[KeyCode::Char('p')]);
        app.take(Look::default());
        assert_eq!(names(&app).len(), 4);
        press(&mut app, &[KeyCode::Char('p')]);
        app.take(Look::default());
        assert!(names(&app).is_empty());
    }

    #[test]
    fn it_ends_when_asked() {
        let mut app = App::new("");
        assert_eq!(
            press(&mut app, &[KeyCode::Char('?'), KeyCode::Char('q')]),
            Wish::Nothing,
            "any key ends help"
        );
        assert_eq!(press(&mut app, &[KeyCode::Char('q')]), Wish::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.press(interrupt), Wish::Quit);
        press(&mut app, &[KeyCode::Char('/')]);
        assert_eq!(app.press(interrupt), Wish::Quit);
        assert_eq!(press(&mut App::new(""), &[KeyCode::Char('+')]), Wish::Faster);
    }

    #[test]
    fn scrolling_stays_within() {
        let mut app = App { shown: (4, 10), ..App::new("") };
        let mut at = |keys: &[KeyCode]| {
            press(&mut app, keys);
            app.first
        };
        assert_eq!(at(&[KeyCode::Up]), 0);
        assert_eq!(at(&[KeyCode::Down]), 1);
        assert_eq!(at(&[KeyCode::PageDown]), 5);
        assert_eq!(at(&[KeyCode::PageDown]), 6);
        assert_eq!(at(&[KeyCode::Home, KeyCode::End]), 6);
    }
}
