package app

import "context"

func startNotifier(context.Context, *App) error { return nil }
