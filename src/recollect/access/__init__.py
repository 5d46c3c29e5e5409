"""Who is calling: users, passwords, sign-in links, sessions, API keys, and Supabase's tokens."""
