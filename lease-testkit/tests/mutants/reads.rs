//! Wrong ways to read rows.

use std::time::Duration;

use lease_core::store::{DbTime, Inspection, Listing, NAME_MAX_BYTES, Page, StoreError};
use lease_core::{LeaseName, LeaseStore};

use super::broken::Broken;
use super::mutant::{ALL, Mutant, touch};

impl Mutant {
    pub(crate) async fn inspect_wrongly(
        &self,
        name: &LeaseName,
        within: Duration,
    ) -> Result<Inspection, StoreError> {
        let mut read = self.inner.inspect(name, within).await?;
        match (self.broken, &mut read.row) {
            (Broken::InspectWrites, Some(_)) => self.inner.edit_row(name, touch),
            (Broken::InspectWrites, None) => self.make_row(name).await?,
            (Broken::SessionTimeZone, row) => {
                let hours = i64::try_from(self.process).unwrap_or(0);
                let there = |time: DbTime| DbTime::from_millis(time.as_millis() + hours * 3_600_000);
                read.now = there(read.now);
                if let Some(row) = row {
                    row.claimed_at = there(row.claimed_at);
                }
            }
            _ => {}
        }
        Ok(read)
    }

    pub(crate) async fn list_wrongly(&self, page: &Page, within: Duration) -> Result<Listing, StoreError> {
        let mut page = page.clone();
        match self.broken {
            Broken::LongPrefixIgnored if page.prefix.len() > NAME_MAX_BYTES => page.prefix.clear(),
            Broken::PrefixEndsAtQuote => {
                page.prefix = page.prefix.split('\'').next().unwrap_or_default().to_owned();
            }
            Broken::ZeroLimitIsAll if page.limit == 0 => page.limit = u32::MAX,
            Broken::EmptyPrefixListsNothing if page.prefix.is_empty() => page.limit = 0,
            _ => {}
        }
        let all = Page { after: page.after.clone(), ..ALL };
        let matches: Option<fn(&str, &str) -> bool> = match self.broken {
            Broken::PrefixIsPattern => Some(is_like),
            Broken::PrefixIgnoresCase => {
                Some(|name, prefix| name.to_lowercase().starts_with(&prefix.to_lowercase()))
            }
            Broken::PrefixAnywhere => Some(|name, prefix| {
                // Past the part that is the same for all names of a case.
                prefix.split_once('/').is_some_and(|(of_case, rest)| {
                    name.strip_prefix(of_case).is_some_and(|name| name.contains(rest))
                })
            }),
            Broken::PrefixByNextChar => Some(|name, prefix| {
                let last = prefix.chars().last().map_or(0, u32::from);
                char::from_u32(last + 1).is_some() && name.starts_with(prefix)
            }),
            _ => None,
        };
        let mut listing = match matches {
            None => self.inner.list(&page, within).await?,
            Some(matches) => {
                let mut listing = self.inner.list(&all, within).await?;
                listing.rows.retain(|row| matches(row.name.as_str(), &page.prefix));
                listing
            }
        };
        match (self.broken, &page.after) {
            (Broken::ListByCollation, _) => listing.rows.sort_by_key(|row| row.name.as_str().to_lowercase()),
            (Broken::PageIncludesAfter, Some(after)) => {
                listing.rows.splice(0..0, self.row(after).await?);
            }
            (Broken::PageWantsAfterRow, Some(after)) if self.row(after).await?.is_none() => {
                listing.rows.clear();
            }
            _ => {}
        }
        listing.rows.truncate(usize::try_from(page.limit).unwrap_or(usize::MAX));
        Ok(listing)
    }
}

/// Whether `text` begins with something that is `LIKE` the pattern.
pub(crate) fn is_like(text: &str, pattern: &str) -> bool {
    let mut wanted = pattern.chars();
    match wanted.next() {
        None => true,
        Some('%') => {
            let rest = wanted.as_str();
            text.char_indices().any(|(at, _)| is_like(&text[at..], rest)) || is_like("", rest)
        }
        Some(first) => {
            let mut found = text.chars();
            found
                .next()
                .is_some_and(|c| (first == '_' || c == first) && is_like(found.as_str(), wanted.as_str()))
        }
    }
}
